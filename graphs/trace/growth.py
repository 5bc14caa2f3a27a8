"""Growth: the program of a decode step whose caches have become longer, made from the one before.

Some ops take a cache and compute the same whatever its length: a position on the device tells how many of its rows
count. Where a structure differs from an earlier one in the lengths of caches alone, which only such ops take, the
passes would do with it what they did with the earlier one. So their program is inferred again for the new forms.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hiprt import kernels
from hiprt.array import Array, Form
from hiprt.graphs.trace.core import Primitive
from hiprt.graphs.trace.program import Program
from hiprt.graphs.trace.rebuild import rebuild
from hiprt.graphs.trace.rehearsal import substitute
from hiprt.op import Op

__all__ = ["Outline", "regrown"]

Call = tuple[Op, Any]
# The ops that take caches, and their parameters that do.
CACHES: dict[Any, tuple[str, ...]] = {
    kernels.slice_update: ("a", "out"),
    kernels.kv_write: ("cache",),
    kernels.attention: ("keys", "values"),
    kernels.norm_rope_write: ("keys", "values"),
    kernels.norm_rope_attention: ("keys", "values"),
}


class Outline:
    """What is kept of a structure, to know one that differs in the lengths of caches alone.

    Parameters
    ----------
    key : bytes
        The key of its cut.
    program : Program
        Its primitives as they were cut.
    written : set of int
        The numbers of the inputs that may be written over.
    """

    def __init__(self, key: bytes, program: Program, written: Collection[int]) -> None:
        primitives = program.primitives
        self.key = np.frombuffer(key, np.uint64)
        self.rules = [primitive.rule for primitive in primitives]  # their addresses are in the key
        found = takers(primitives, {value.number for value in program.inputs} & set(written))
        self.calls: dict[int, Call] = {at: call_of(primitives[at]) for at in found.places}
        self.caches = [value.number in found.caches for value in program.inputs]
        self.forms = [value.form for value in program.inputs]
        words = [1 + bool(primitive.stamp) + len(primitive.inputs) for primitive in primitives]
        self.places: NDArray[np.intp] = np.cumsum([0, *words])[:-1]  # of the primitives' rules in the key

    def is_grown(self, before: Outline) -> bool:
        """Whether the structure is another one with longer caches."""
        if len(self.key) != len(before.key) or len(self.rules) != len(before.rules) or self.caches != before.caches:
            return False
        others = [at for at, (a, b) in enumerate(zip(self.rules, before.rules)) if a is not b]
        (words,) = np.nonzero(self.key != before.key)
        if not np.array_equal(words, self.places[others]):
            return False
        if any(at not in self.calls or self.calls[at] != before.calls.get(at) for at in others):
            return False
        forms = list(zip(self.forms, before.forms, self.caches))
        if not all(a == b or (is_cache and is_longer(a, b)) for a, b, is_cache in forms):
            return False
        pairs = {(a, b) for a, b, is_cache in forms if is_cache}
        return len(pairs) == len({b for _, b in pairs})  # what had one form has one form now

    def suits(self, program: Program, kept: Sequence[int]) -> bool:
        """Whether only ops that take caches take those of a program of the passes; `kept` has its inputs' places."""
        caches = {value.number for value, place in zip(program.inputs, kept) if self.caches[place]}
        return takers(program.primitives, caches).caches == caches and (
            program.otherwise is None or self.suits(program.otherwise, kept)
        )


class Takers:
    """Which primitives take caches.

    Attributes
    ----------
    caches : set of int
        The numbers of the inputs that only ops of `CACHES` take as a cache.
    places : list of int
        The places of the primitives that take these, or what was written into them.
    """

    def __init__(self, caches: set[int], places: list[int]) -> None:
        self.caches, self.places = caches, places


def takers(primitives: Sequence[Primitive], inputs: set[int]) -> Takers:
    """Return which primitives take some inputs as caches."""
    cache_of = {number: number for number in inputs}
    found: list[tuple[int, set[int]]] = []
    others: set[int] = set()
    for at, primitive in enumerate(primitives):
        numbers = [value.number for value in primitive.inputs if value.primitive is not None]
        if cache_of.keys().isdisjoint(numbers):
            continue
        taken = {cache_of[number] for number in numbers if number in cache_of}
        op, names = primitive.op, CACHES.get(primitive.op, ())
        assert op is not None
        given = [value for name, value in zip(op.names, primitive.arguments) if name in names]
        right = [value.number for value in given if isinstance(value, Array) and value.primitive is not None]
        for number in numbers:
            if number in cache_of and numbers.count(number) > right.count(number):
                others.add(cache_of[number])
        found.append((at, taken))
        if op is kernels.slice_update and numbers[0] in cache_of:
            cache_of[primitive.number] = cache_of[numbers[0]]
    return Takers(inputs - others, [at for at, taken in found if not taken & others])


def call_of(primitive: Primitive) -> Call:
    """Return a primitive's op, and its arguments without the arrays."""
    assert primitive.op is not None
    return primitive.op, substitute(primitive.arguments, lambda part: Array if isinstance(part, Array) else part)


def is_longer(now: Form, before: Form) -> bool:
    """Whether a cache's form is another one's with more rows."""
    rows = now.ndim - 2
    return (
        rows >= 0
        and now.ndim == before.ndim
        and now.dtype == before.dtype
        and now.shape[rows] > before.shape[rows]
        and all(a == b for axis, (a, b) in enumerate(zip(now.shape, before.shape)) if axis != rows)
        and now.is_contiguous
        and before.is_contiguous
        and now.is_aligned == before.is_aligned
    )


def regrown(program: Program, arrays: Sequence[Array]) -> Program:
    """Return a program of the passes, inferred for inputs of the forms of other arrays."""
    forms = {value.number: array for value, array in zip(program.inputs, arrays)}
    made = rebuild(program, lambda _, call, __: call(), forms=forms)
    made.notes = program.notes
    if program.otherwise is not None:
        made.otherwise = regrown(program.otherwise, arrays)
    return made
