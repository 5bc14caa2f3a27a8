"""Patterns: the objects that a recorded function reads, and in which it may leave something."""

from __future__ import annotations

import enum
from collections.abc import Callable
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from hiprt.array import Array, Form
from hiprt.graphs.trace import core
from hiprt.graphs.trace.value import Value
from hiprt.kernels import slice_update

__all__ = ["ARRAY", "ATTRIBUTE", "FUNCTIONS", "ITEM", "PLAIN", "Holder", "Pattern", "RefusedError", "is_grown"]

SAME, ARRAY, INTEGER, LIST, TUPLE, DICT, OBJECT, AGAIN, ANY = range(9)  # kinds of nodes, as `core.Recipe` takes them
ITEM, ENTRY, ATTRIBUTE = range(3)  # of a list, a dictionary, an object
MOST_NODES, DEEPEST = 50_000, 60
MOST_INTEGER = 1 << 40
# Objects that are themselves, whatever their attributes.
FUNCTIONS = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType, partial, enum.Enum)
PLAIN = (type(None), bool, int, float, complex, str, bytes, range, type(...), slice)
HEAP_TYPE = 1 << 9  # of a type's flags: it is no type of an extension module


class RefusedError(Exception):
    """A call has no recipe; the message says why."""


class Holder:
    """An object of a pattern in which a function may leave something.

    Attributes
    ----------
    node : int
    object : object
    kind : int
        ITEM of a list, ENTRY of a dictionary, or ATTRIBUTE.
    is_fixed : bool
        Whether the function must leave it as it is.
    before : dict
        What it held, by place or key.
    """

    def __init__(self, node: int, holder: Any, kind: int, is_fixed: bool) -> None:
        self.node, self.object, self.kind, self.is_fixed = node, holder, kind, is_fixed
        self.before = dict(self.items())

    def items(self) -> dict[Any, Any]:
        """Return what it holds now."""
        found: dict[Any, Any] = vars(self.object) if self.kind == ATTRIBUTE else self.object
        return dict(enumerate(found)) if self.kind == ITEM else found


class Pattern:
    """The objects that a function reads: its arguments, and what they lead to.

    Lists, tuples, dictionaries and objects with attributes are known by what they hold; arrays by their forms. What is
    behind an object that `is_fixed` names is fixed: its numbers are constants, and what is of no kind known is itself.
    Elsewhere integers that are attributes are slots, and an object of a kind not known is refused.

    Parameters
    ----------
    root : tuple
    is_fixed : callable
        Whether an object, and what is behind it, is fixed.
    skipped : set of str
        The names of attributes that mean nothing.

    Attributes
    ----------
    nodes : list of tuple
        As `core.Recipe` takes them.
    arrays : list of Lazy
    values : list of Array
        The arrays' values.
    fixed : set of int
        Which of the arrays are fixed.
    integers : list of tuple
        The attributes that are integers: the object, the name, the number, and the first integer of that name and
        number, for which they all are taken.
    sizes : list of int
        How many rows caches have: arrays that are not fixed, which may come with another number of rows.
    caches : dict
        Which of the sizes an array has, by the array's number. Arrays of one form have one size.
    """

    def __init__(self, root: tuple[Any, ...], is_fixed: Callable[[Any], bool], skipped: frozenset[str]) -> None:
        self.nodes: list[tuple[Any, ...]] = []
        self.arrays: list[core.Lazy] = []
        self.values: list[Array] = []
        self.fixed: set[int] = set()
        self.integers: list[tuple[Any, str, int, int]] = []
        self.holders: list[Holder] = []
        self.found: dict[int, int] = {}
        self.kept: list[Any] = []  # so that no other object has their addresses
        self.symbols: dict[tuple[str, int], int] = {}
        self.is_fixed, self.skipped = is_fixed, skipped
        self.visit(root, False, 0)
        if len({id(value) for value in self.values}) < len(self.values):
            raise RefusedError("two arrays are one value")
        forms: dict[Form, int] = {}
        self.caches: dict[int, int] = {}
        for i, value in enumerate(self.values):
            if i not in self.fixed and type(value) is Value and value.ndim > 2 and value.is_contiguous:
                self.caches[i] = forms.setdefault(value.form, len(forms))
        self.sizes = [form.shape[-2] for form in forms]

    def add(self, kind: int, what: Any = None, first: Any = None, second: Any = None) -> None:
        """Add a node."""
        if len(self.nodes) >= MOST_NODES:
            raise RefusedError("too many objects are reached")
        self.nodes.append((kind, what, first, second))

    def visit(self, part: Any, is_fixed: bool, depth: int) -> None:
        """Add the nodes of an object, and of what is in it."""
        kind = type(part)
        if kind in PLAIN or isinstance(part, FUNCTIONS):
            self.add(SAME, part)
        elif id(part) in self.found:
            self.add(AGAIN, None, self.found[id(part)])
        elif depth > DEEPEST:
            raise RefusedError("objects are too deep")
        else:
            is_fixed = is_fixed or self.is_fixed(part)
            self.found[id(part)] = len(self.nodes)
            self.kept.append(part)
            self.visit_new(part, kind, is_fixed, depth + 1)

    def visit_new(self, part: Any, kind: type, is_fixed: bool, depth: int) -> None:
        """Add the nodes of an object that may hold others."""
        node = len(self.nodes)
        if isinstance(part, core.Lazy):
            self.add(ARRAY, part.value.form, part.value.primitive.prefix, is_grown(part.value))
            if is_fixed:
                self.fixed.add(len(self.arrays))
            self.arrays.append(part)
            self.values.append(part.value)
        elif kind is list or kind is tuple:
            self.add(LIST if kind is list else TUPLE, None, len(part))
            if kind is list:
                self.holders.append(Holder(node, part, ITEM, is_fixed))
            for each in part:
                self.visit(each, is_fixed, depth)
        elif kind is dict:
            self.add(DICT, None, tuple(part))
            self.holders.append(Holder(node, part, ENTRY, is_fixed))
            for each in part.values():
                self.visit(each, is_fixed, depth)
        elif has_attributes(part, kind):
            own = tuple(part) if isinstance(part, dict) else None
            self.add(OBJECT, kind, own, tuple(vars(part)))
            if own is not None:
                self.holders.append(Holder(node, part, ENTRY, is_fixed))
                for each in dict.values(part):
                    self.visit(each, is_fixed, depth)
            self.holders.append(Holder(node, part, ATTRIBUTE, is_fixed))
            for name, each in vars(part).items():
                if name in self.skipped:
                    self.add(ANY)
                elif type(each) is int and not is_fixed and abs(each) < MOST_INTEGER:
                    symbol = self.symbols.setdefault((name, each), len(self.integers))
                    self.integers.append((part, name, each, symbol))
                    self.add(INTEGER)
                else:
                    self.visit(each, is_fixed, depth)
        elif is_fixed or kind.__module__.startswith("hiprt."):
            self.add(SAME, part)
        else:
            raise RefusedError(f"an object of the class {kind.__qualname__} is reached")


def is_grown(value: Array) -> bool:
    """Whether a value is a cache of which a part was written."""
    maker: Any = value.primitive
    return bool(maker.rule[3][value.number - maker.number]) if maker.stamp else maker.op is slice_update


def has_attributes(part: Any, kind: type) -> bool:
    """Whether an object is known by its attributes, and by its items if it is a dictionary."""
    if not kind.__flags__ & HEAP_TYPE or not kind.__dictoffset__ or kind.__module__.startswith("hiprt."):
        return False
    return isinstance(part, dict) or not isinstance(part, (list, tuple, set, frozenset, str, bytes, int, float))
