"""Heads: queries, keys and values that are normed, turned, written to their caches and attended to by one kernel."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from hiprt import kernels
from hiprt.array import Array
from hiprt.graphs.trace.core import Primitive
from hiprt.graphs.trace.passes.decode.joins import Wanted, are_columns
from hiprt.graphs.trace.passes.decode.match import Match, Replaced
from hiprt.graphs.trace.passes.decode.part import Part, part_of
from hiprt.graphs.trace.passes.decode.uses import Uses, argument, is_plain

__all__ = ["heads", "heads_of_attention", "openings", "wanted_by_heads"]

NARROWEST, WIDEST = 32, 256


class Heads(NamedTuple):
    """Queries, keys and values that are normed, turned and written.

    Attributes
    ----------
    parts : tuple of 3 Part
        Queries, keys and values.
    turned : tuple of 2 Primitive
        The rotations of queries and of keys.
    writes : tuple of 2 Primitive
    norms : tuple of 2 Array or None
    eps : float
    inside : list of Primitive
        All calls but the rotation of queries.
    """

    parts: tuple[Part, Part, Part]
    turned: tuple[Primitive, Primitive]
    writes: tuple[Primitive, Primitive]
    norms: tuple[Array | None, Array | None]
    eps: float
    inside: list[Primitive]


def heads(uses: Uses) -> list[Match]:
    """Find queries, keys and values that are cut out of one product, normed, turned and written to caches."""
    matches = [match_of(uses, each) for each in heads_of(uses) if are_columns(each.parts)]
    return [match for match in matches if match is not None]


def wanted_by_heads(uses: Uses) -> list[Wanted]:
    """Return the queries, keys and values that are wanted as columns of one product."""
    return [each.parts for each in heads_of(uses)]


def heads_of(uses: Uses) -> list[Heads]:
    """Return the heads that attention takes, each with the writes of keys and of values that follow each other."""
    queries: dict[int, list[Primitive]] = {}  # the rotations of what attention takes, by the number of its keys
    for call in uses.calls(kernels.attention):
        query, keys = uses.maker(argument(call, "q"), kernels.rope), argument(call, "keys")
        if query is not None:
            queries.setdefault(name_of(keys), []).append(query)
    found = []
    for first, second in pairwise(uses.calls(kernels.kv_write)):
        for query in queries.get(name_of(argument(first, "cache")), ()):
            each = of_writes(uses, query, first, second)
            if each is not None:
                found.append(each)
                break
    return found


def name_of(value: Array) -> int:
    """Return what tells arrays of a program apart: the number of a value, or a captured array's negative id."""
    return value.number if value.primitive is not None else -id(value)


def of_writes(uses: Uses, query: Primitive, first: Primitive, second: Primitive) -> Heads | None:
    """Return the heads of a rotation of queries and two writes; None where they are not made as the kernel does."""
    turned = uses.maker(argument(first, "x"), kernels.rope)
    value = part_of(uses, argument(second, "x"))
    position = argument(first, "position")
    if turned is None or value is None or turned is query:
        return None
    queries, keys = normed_part(uses, query), normed_part(uses, turned)
    if queries is None or keys is None:
        return None
    cache, (n, count, width) = argument(first, "cache"), query.inputs[0].form.shape
    groups = cache.form.shape[-3] if cache.form.ndim == 4 else 0
    parts = queries[0], keys[0], value
    sizes = [None if part.columns is None else (len(part.columns), part.places.shape) for part in parts]
    is_right = (
        all(argument(query, name) == argument(turned, name) for name in ("base", "dims"))
        and all(argument(each, "position") is position for each in (query, turned, second))
        and not argument(turned, "traditional")
        and not argument(query, "traditional")
        and (queries[1] is None or keys[1] is None or queries[2] == keys[2])
        and sizes == [(many * width, (n, many, width)) for many in (count, groups, groups)]
        and all(part.source.form.ndim == 2 and part.source.form.shape[0] == n for part in parts)
        and cache.form.shape[0] == n
        and argument(second, "cache").form.shape == cache.form.shape
        and width <= WIDEST
        and all(is_plain(part.source, cache.dtype) for part in parts)
    )
    if not is_right:
        return None
    inside = [*queries[0].inside, *keys[0].inside, *value.inside, turned, first, second]
    eps = queries[2] if queries[1] is not None else keys[2]
    return Heads(parts, (query, turned), (first, second), (queries[1], keys[1]), eps, inside)


def match_of(uses: Uses, found: Heads) -> Match | None:
    """Return the match of heads; None where something else uses what is in between."""
    query, turned = found.turned
    made = [each for each in found.inside if each not in found.writes]
    if not uses.is_inside(made, [*found.inside, query]):
        return None
    keys, values = (argument(each, "cache") for each in found.writes)
    operands = found.parts[0].source, *found.norms, argument(turned, "position"), keys, values
    options = {"heads": query.inputs[0].form.shape[-2], "eps": found.eps}
    options |= {name: argument(turned, name) for name in ("base", "dims")}

    def make(replaced: Replaced) -> list[Array]:
        return [kernels.norm_rope_write(*map(replaced, operands), **options)]

    reads = tuple(each for each in operands[:4] if each is not None)
    return Match((query,), tuple(found.inside), reads, (keys, values), make)


def heads_of_attention(uses: Uses) -> list[Match]:
    """Find attention to the caches that the kernel which made its queries has written."""
    matches = [match_of_attention(uses, call) for call in uses.calls(kernels.attention)]
    return [match for match in matches if match is not None]


def match_of_attention(uses: Uses, call: Primitive) -> Match | None:
    """Return the match of attention; None where its queries are made by another op, or used by another."""
    made = uses.maker(argument(call, "q"), kernels.norm_rope_write)
    if made is None or argument(call, "out") is not None or argument(made, "out") is not None:
        return None
    if argument(made, "slots") is not None:
        return None
    shared = "keys", "values", "position"
    is_right = (
        all(name_of(argument(call, name)) == name_of(argument(made, name)) for name in shared)
        and NARROWEST <= argument(call, "q").form.shape[-1] <= WIDEST
        and uses.is_inside([made], [made, call])
    )
    if not is_right:
        return None
    assert made.op is not None
    options = {name: value for name, value in zip(made.op.names, made.arguments) if name != "slots"}
    options |= {name: argument(call, name) for name in ("scale", "gate")}

    def make(replaced: Replaced) -> list[Array]:
        return [kernels.norm_rope_attention(**{name: replaced(value) for name, value in options.items()})]

    reads = "qkv", "q_norm", "k_norm", "position", "gate"
    operands = tuple(options[name] for name in reads if options[name] is not None)
    return Match((call,), (made,), operands, (options["keys"], options["values"]), make)


def normed_part(uses: Uses, turned: Primitive) -> tuple[Part, Array | None, float] | None:
    """Return the columns that are normed and turned, the weight of the norm, and its epsilon."""
    x = argument(turned, "x")
    norm = uses.maker(x, kernels.rms_norm)
    part = part_of(uses, x if norm is None else argument(norm, "x"))
    if part is None or argument(turned, "out") is not None:
        return None
    if norm is None:
        return part, None, 1e-6
    weight = argument(norm, "weight")
    if weight is None or argument(norm, "out") is not None:
        return None
    return part._replace(inside=[*part.inside, norm]), weight, argument(norm, "eps")


def openings(uses: Uses) -> list[Match]:
    """Find answers of attention that are multiplied by ``sigmoid(gate)``."""
    found = []
    for call in uses.calls(kernels.multiply):
        a, b = argument(call, "a"), argument(call, "b")
        for mixed, opened in ((a, b), (b, a)):
            answer, sigmoid = part_of(uses, mixed), uses.maker(opened, kernels.sigmoid)
            attention = None if answer is None else uses.maker(answer.source, kernels.attention)
            gate = None if sigmoid is None else part_of(uses, argument(sigmoid, "a"))
            if (
                answer is None
                or sigmoid is None
                or attention is None
                or gate is None
                or argument(call, "out") is not None
            ):
                continue
            match = opening_of(uses, call, answer, attention, sigmoid, gate)
            if match is not None:
                found.append(match)
                break
    return found


def opening_of(
    uses: Uses, call: Primitive, answer: Part, attention: Primitive, sigmoid: Primitive, gate: Part
) -> Match | None:
    """Return the match of a gate behind attention; None where the kernel does not take it."""
    columns, q = gate.columns, argument(attention, "q")
    if columns is None or not len(columns) or q.form.ndim != 3 or gate.source.form.ndim != 2:
        return None
    n, count, width = q.form.shape
    inside = [attention, *answer.inside, sigmoid, *gate.inside]
    start, stop = int(columns[0]), int(columns[-1]) + 1
    is_right = (
        answer.places.size == answer.source.form.size
        and np.array_equal(answer.places.reshape(-1), np.arange(answer.places.size))
        and answer.places.shape == gate.places.shape == (n, count * width)
        and np.array_equal(columns, np.arange(start, stop))
        and gate.source.form.shape[0] == n
        and gate.source.dtype == q.dtype
        and argument(attention, "gate") is None
        and argument(call, "out") is argument(attention, "out") is argument(sigmoid, "out") is None
        and uses.is_inside(inside, [*inside, call])
    )
    if not is_right:
        return None
    assert attention.op is not None
    options = dict(zip(attention.op.names, attention.arguments))

    def make(replaced: Replaced) -> list[Array]:
        given = {name: replaced(value) for name, value in options.items()}
        given["gate"] = replaced(gate.source)[:, start:stop]
        return [kernels.attention(**given).reshape(-1, count * width)]

    return Match((call,), tuple(inside), attention.inputs, (), make, readers=(attention,), unwritten=(gate.source,))
