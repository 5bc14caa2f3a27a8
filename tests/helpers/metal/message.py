"""Methods that can be called only as PyObjC publishes them: by the selector's name, with arguments of its types."""

import functools
import inspect
import json
from collections import namedtuple
from pathlib import Path

FACTS = json.loads((Path(__file__).parent / "facts.json").read_text())
SIGNATURES = {**FACTS["metadata"], **FACTS["headers"]}

MTLSize = namedtuple("MTLSize", "width height depth")
MTLSizeAndAlign = namedtuple("MTLSizeAndAlign", "size align")


class Misuse(AssertionError):
    """What Metal's validation stops a program for."""


def require(truth, what):
    """Stop a program that breaks a rule of Metal's."""
    if not truth:
        raise Misuse(what)


class Fake:
    """An object of the Metal framework; a selector that its class does not have is an AttributeError, as in PyObjC."""


def is_count(value):
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 64


FITS = {
    "@": lambda value: value is None or isinstance(value, (Fake, str)),
    "Q": is_count,
    "q": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "Z": lambda value: isinstance(value, bool),
    "^@": lambda value: value is None,
    "o^@": lambda value: value is None,
    "{MTLSize=QQQ}": lambda value: isinstance(value, MTLSize) and all(map(is_count, value)),
    "{_NSRange=QQ}": lambda value: isinstance(value, tuple) and len(value) == 2 and all(map(is_count, value)),
}


def message(function):
    """Check calls of a method against the selector that its name stands for.

    A parameter annotated with a class takes its objects only: Metal raises where the object lacks the methods it needs.
    """
    selector = function.__name__.replace("_", ":")
    _, types = SIGNATURES[selector]
    wanted = [p.annotation for p in list(inspect.signature(function).parameters.values())[1:]]
    assert len(wanted) == len(types) == selector.count(":"), selector

    @functools.wraps(function)
    def call(self, *args):
        if len(args) != len(types):
            raise TypeError(f"{selector} takes {len(types)} arguments, not {len(args)}")
        for place, (value, encoding, kind) in enumerate(zip(args, types, wanted)):
            if not FITS[encoding](value) or (kind is not inspect.Parameter.empty and not isinstance(value, kind)):
                raise TypeError(f"{selector} argument {place}: {value!r} is not of type {encoding}")
        return function(self, *args)

    return call


class Descriptor(Fake):
    """An object whose properties are set before something is made with it."""

    @classmethod
    def alloc(cls):
        return cls()

    def init(self):
        return self
