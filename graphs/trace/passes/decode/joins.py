"""Joins: products of the same vectors with several matrices become one, where a kernel then takes all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from hiprt import kernels
from hiprt.array import Array
from hiprt.graphs.trace.core import Primitive
from hiprt.graphs.trace.passes.decode.formats import MATRIX, format_options
from hiprt.graphs.trace.passes.decode.match import Match, Replaced
from hiprt.graphs.trace.passes.decode.matrices import Joined, joined
from hiprt.graphs.trace.passes.decode.part import Part, is_view, part_of
from hiprt.graphs.trace.passes.decode.uses import Uses, argument

__all__ = ["Wanted", "are_columns", "joins"]

Wanted = Sequence[Part]


def are_columns(parts: Wanted) -> bool:
    """Whether parts are the first columns of one array, in this order."""
    columns = [part.columns for part in parts]
    if any(part.source is not parts[0].source for part in parts) or any(each is None for each in columns):
        return False
    whole = np.concatenate([each for each in columns if each is not None])
    return np.array_equal(whole, np.arange(len(whole)))


def joins(finders: Sequence[Callable[[Uses], list[Wanted]]], told: Joined) -> Callable[[Uses], list[Match]]:
    """Return what finds products that are wanted as columns of one.

    Parameters
    ----------
    finders : sequence of callable
        Each returns lists of parts that a kernel takes as columns of one array, in this order.
    told : Joined
        What is told of the matrices.
    """

    def find(uses: Uses) -> list[Match]:
        found, taken = [], set[int]()
        for finder in finders:
            for wanted in finder(uses):
                numbers = {part.source.number for part in wanted if part.source.primitive is not None}
                if are_columns(wanted) or numbers & taken:
                    continue
                match = join_of(uses, wanted, told)
                if match is not None:
                    found.append(match)
                    taken |= numbers
        return found

    return find


def join_of(uses: Uses, wanted: Wanted, told: Joined) -> Match | None:
    """Return the match that makes parts the columns of one product; None where that cannot be."""
    sources: dict[int, Primitive] = {}
    for part in wanted:
        maker = uses.maker(part.source)
        if maker is None or not (maker.op is kernels.quantized_matmul or maker.op is kernels.gather_qmm):
            return None
        sources[maker.number] = maker
    makers = list(sources.values())
    forms = [format_options(maker) for maker in makers]
    first = forms[0]
    if first is None or not all(form is not None and is_alike(form, first) for form in forms):
        return None
    if not all(have_one_input(maker, makers[0]) for maker in makers):
        return None
    ends = ends_of(uses, makers, wanted)
    if ends is None:
        return None
    starts = dict(zip(sources, np.cumsum([0, *(form["w"].form.shape[-2] for form in forms if form is not None)])))
    order = np.concatenate([starts[part.source.number] + part.columns for _, part in ends])
    total = sum(form["w"].form.shape[-2] for form in forms if form is not None)
    places = None if np.array_equal(order, np.arange(total)) else order
    if places is not None and np.bincount(order).max() > 1:  # a column is taken twice
        return None
    matrices: dict[str, Array] = {}
    for name in MATRIX:
        parts = [form[name] for form in forms if form is not None]
        made = joined(parts, -2, places, told) if told.are_constants(parts) else None
        if made is None:
            return None
        matrices[name] = made
    edges = np.cumsum([0, *(len(np.asarray(part.columns)) for _, part in ends)]).tolist()
    op, names = makers[0].op, makers[0].op.names if makers[0].op is not None else ()
    options = {**dict(zip(names, makers[0].arguments)), **matrices}
    shapes = [part.places.shape for _, part in ends]

    def make(replaced: Replaced) -> list[Any]:
        assert op is not None
        whole = op(**{name: replaced(value) for name, value in options.items()})
        cuts = [kernels.contiguous(whole[..., start:stop]) for start, stop in pairwise(edges)]
        return [cut.reshape(-1, *shape[1:]) for cut, shape in zip(cuts, shapes)]

    results = tuple(primitive for primitive, _ in ends)
    numbers = {primitive.number for primitive in results}
    inside = {each.number: each for each in makers}
    inside |= {each.number: each for _, part in ends for each in part.inside}
    others = tuple(each for number, each in inside.items() if number not in numbers)
    reads = [value for value in options.values() if isinstance(value, Array)]
    reads += [form[name] for form in forms if form is not None for name in MATRIX]
    return Match(results, others, tuple(reads), (), make, readers=tuple(makers))


def is_alike(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Whether two matrices, or stacks of as many, differ in their rows alone."""
    if any(a[name] != b[name] for name in ("group_size", "bits")):
        return False
    for name in MATRIX:
        one, two = a[name].form, b[name].form
        if one.ndim != two.ndim or one.shape[:-2] != two.shape[:-2] or one.shape[-1] != two.shape[-1]:
            return False
    return bool(a["scales"].dtype == b["scales"].dtype)


def have_one_input(a: Primitive, b: Primitive) -> bool:
    """Whether two calls of one op differ in their matrices alone."""
    if a.op is not b.op or a.op is None:
        return False
    pairs = [(x, y) for name, x, y in zip(a.op.names, a.arguments, b.arguments) if name not in MATRIX]
    return argument(a, "out") is None and all(x is y or is_same_constant(x, y) for x, y in pairs)


def is_same_constant(x: Any, y: Any) -> bool:
    """Whether two arguments are equal and no arrays."""
    return not isinstance(x, Array) and type(x) is type(y) and bool(x == y)


def ends_of(uses: Uses, makers: Sequence[Primitive], wanted: Wanted) -> list[tuple[Primitive, Part]] | None:
    """Return the values in which products are used, the wanted ones first; None where one has no columns."""
    ends: dict[int, tuple[Primitive, Part]] = {}
    for maker in makers:
        waiting = [maker]
        while waiting:
            primitive = waiting.pop()
            users = uses.users[primitive.number]
            if primitive.number not in uses.returned and users and all(is_view(user) for user in users):
                waiting += users
                continue
            value = uses.value_of(primitive)
            part = None if value is None else part_of(uses, value)
            if value is None:
                continue  # nothing uses it
            if part is None or part.columns is None:
                return None
            ends[primitive.number] = primitive, part
    first: list[tuple[Primitive, Part]] = []
    for part in wanted:
        found = next((end for end in ends.values() if same_part(end[1], part)), None)
        if found is None:
            return None
        del ends[found[0].number]
        first.append(found)
    return first + [ends[number] for number in sorted(ends)]


def same_part(a: Part, b: Part) -> bool:
    """Whether two parts are the same elements of one array, of one shape."""
    return a.source is b.source and a.places.shape == b.places.shape and np.array_equal(a.places, b.places)
