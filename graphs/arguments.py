"""Arguments of a call, by name, and what differs between those of two calls; this is what explanations are made of."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np

from hiprt.array import Array
from hiprt.graphs.signature import value_of

__all__ = ["Arguments", "Difference", "Why", "names_of"]

# What two arguments may differ in. The first that is found is the reason why a call is not a replay.
ASPECTS = ("type", "dtype", "shape", "layout", "alignment", "value", "address", "place")
REMEDIES = {
    "presence": "Each number of arguments has a graph of its own",
    "type": "Pass it as one type: each type has a graph of its own",
    "dtype": "Each dtype has a graph of its own",
    "shape": "Pad it to a few shapes: each shape has a graph of its own",
    "layout": "Copy it into an array of one layout: each has a graph of its own",
    "alignment": "Let it begin at a multiple of 16 bytes, as arrays do that are no views",
    "value": "If it changes from call to call, name it in varying= of the step, which then reads it in device memory",
    "address": "Write into one array instead of passing another; a step made with moves=True patches addresses in",
    "place": "It lies elsewhere for each stream: call the step on one stream, or make a step for each",
}
WIDEST = 60  # characters of a value that are shown


class Difference(NamedTuple):
    """What differs between two calls of a step.

    Attributes
    ----------
    name : str
        The argument, such as ``scale`` or ``weights['q'][0]``.
    aspect : str
        One of `ASPECTS`, or ``presence`` where only one of the calls has the argument.
    old, new : str
        How it was, and how it is.
    others : int
        The number of other arguments that differ.
    """

    name: str
    aspect: str
    old: str
    new: str
    others: int = 0

    @property
    def reason(self) -> str:
        """The difference without values, by which it is counted."""
        return f"another {self.aspect} of {self.what}"

    @property
    def what(self) -> str:
        """The argument, and that it varies, if that is why it lies elsewhere."""
        return label(self.name, varies=self.aspect == "place")

    @property
    def remedy(self) -> str:
        """What keeps the difference from costing a graph."""
        return REMEDIES[self.aspect]

    def __str__(self) -> str:
        rest = f" (and {self.others} other argument{'s' * (self.others > 1)})" if self.others else ""
        return f"{self.what}: {self.old} -> {self.new}{rest}"


Why = Callable[[], Difference | None]  # says what differs from the call before, if that is known and anything does


class Arguments:
    """What a call was given, without the arrays themselves.

    Parameters
    ----------
    args : tuple
    keywords : mapping
    names : sequence of str
        The names of the positional arguments, as `names_of` returns them.
    varying : collection of str, optional
        Those that the step puts in device memory, at a place of their own for each stream.

    Attributes
    ----------
    facts : dict
        Name of each array and plain value to what is known of it: aspect to (what is compared, what is shown).
    """

    def __init__(
        self,
        args: tuple[Any, ...],
        keywords: Mapping[str, Any],
        names: tuple[str, ...] = (),
        varying: Collection[str] = (),
    ) -> None:
        self.varying = varying
        self.facts: dict[str, dict[str, tuple[Hashable, Any]]] = {}
        for i, value in enumerate(args):
            self.add(names[i] if i < len(names) else str(i), value)
        for name, value in keywords.items():
            self.add(name, value)

    def add(self, name: str, value: Any) -> None:
        """Take in an argument, or what is inside one."""
        if isinstance(value, (tuple, list)):
            for i, item in enumerate(value):
                self.add(f"{name}[{i}]", item)
        elif isinstance(value, dict):
            for key, item in value.items():
                self.add(f"{name}[{key!r}]", item)
        elif isinstance(value, Array):
            aligned = "a multiple of 16" if value.form.is_aligned else "no multiple of 16"
            self.facts[name] = {
                "type": ("array", "array"),
                "dtype": (value.dtype, value.dtype),
                "shape": (value.shape, value.shape),
                "layout": (value.strides, f"strides {value.strides}"),
                "alignment": (value.form.is_aligned, aligned),
                "place" if name in self.varying else "address": (value.address, f"{value.address:#x}"),
            }
        else:
            kind = type(value)
            # A numpy array may be changed where it is before anybody asks what it was.
            kept = value.copy() if isinstance(value, np.ndarray) else value
            self.facts[name] = {"type": (str(kind), kind.__name__), "value": (value_of(value), kept)}

    @property
    def arrays(self) -> list[str]:
        """What the arrays are called, in order."""
        return [label(name, varies="place" in facts) for name, facts in self.facts.items() if "layout" in facts]

    def difference(self, earlier: Arguments) -> Difference | None:
        """Return what differs from an earlier call, or None where nothing does."""
        mine, its = self.facts, earlier.facts
        alone = [name for name in (*its, *mine) if name not in mine or name not in its]
        if alone:
            name = alone[0]
            old, new = ("given", "not given") if name in its else ("not given", "given")
            return Difference(name, "presence", old, new, len(alone) - 1)
        found: list[tuple[int, str]] = []
        for name, facts in mine.items():
            before = its[name]
            differing = [k for k, aspect in enumerate(ASPECTS) if is_other(before.get(aspect), facts.get(aspect))]
            if differing:
                found.append((differing[0], name))
        if not found:
            return None
        which, name = min(found, key=lambda each: each[0])
        aspect = ASPECTS[which]
        return Difference(name, aspect, shown(aspect, its[name]), shown(aspect, mine[name]), len(found) - 1)


def label(name: str, *, varies: bool) -> str:
    """Return what an argument is called in an explanation."""
    return f"{'varying ' if varies else ''}argument {name}"


def is_other(before: tuple[Hashable, Any] | None, now: tuple[Hashable, Any] | None) -> bool:
    """Whether two facts differ; arguments of two types have other facts, but differ in type first."""
    return before is not None and now is not None and before[0] != now[0]


def shown(aspect: str, facts: Mapping[str, tuple[Hashable, Any]]) -> str:
    """Return a fact as text, on one line and not too long."""
    value = facts[aspect][1]
    text = " ".join((repr(value) if aspect == "value" else str(value)).split())
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 1]}…"


def names_of(function: Callable[..., Any], count: int) -> tuple[str, ...]:
    """Return the names of a function's first positional arguments; those without a name are numbered."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return ()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [each.name for each in parameters if each.kind in positional][:count]
    rest = next((each.name for each in parameters if each.kind is inspect.Parameter.VAR_POSITIONAL), None)
    if rest is not None:
        names += [f"{rest}[{i}]" for i in range(count - len(names))]
    return tuple(names)
