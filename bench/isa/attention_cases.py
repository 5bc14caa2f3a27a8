"""Calls of attention, of what writes its caches, and of rotations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import hiprt
from hiprt import kernels
from hiprt.array import Array
from hiprt.bench.isa.case import Case, int32, normal
from hiprt.kernels.ops.attention.attention import combine_launch
from hiprt.kernels.ops.attention.grouped_heads import HEAD_WIDTHS, GroupedHeads
from hiprt.kernels.ops.attention.norm_rope_attention import TURNED_DIMS
from hiprt.kernels.ops.attention.prefill_attention import TURNED, plan_of as prefill_plan, tile_rows
from hiprt.kernels.ops.quantized_cache.coded_heads import WIDTHS
from hiprt.kernels.reference import ops as reference
from hiprt.kernels.tuning.table import DEFAULT
from hiprt.kernels.tuning.target import target_of
from hiprt.stream import current_stream

__all__ = ["heads"]


def turned_attention(
    q: Array, keys: Array, values: Array, position: Array, *, scale: float, gate: Array | None = None
) -> Array:
    """Launch `prefill_attention` with the rows of targets that have matrix instructions for it."""
    stream = current_stream()
    target = replace(target_of(stream), table=TURNED)
    plan = prefill_plan(q, keys, values, position, gate, scale, target)
    return plan.run(stream, None, q=q, keys=keys, values=values, position=position, gate=gate)


def heads(dtype: np.dtype[Any]) -> Iterator[Case]:
    """Yield attention, the writing of its cache, and rotations."""
    for width in HEAD_WIDTHS:
        for pairs in DEFAULT.attention_heads:
            q, (keys, values) = normal(dtype, 4, width), normal(dtype, 2, pairs, 20, width, seed=5)
            exact = reference.attention(q, keys, values, 17, width**-0.5)
            name = f"4 heads of {width} over 18 positions of {pairs}"
            yield Case(name, kernels.attention, (q, keys, values, int32(17)), exact, {"scale": width**-0.5})
        queries, last = normal(dtype, 3, 4, width), np.array([16, 17, 2], np.int32)
        exact = reference.prefill_attention(queries, keys, values, last, width**-0.5)
        name = f"3 rows of 4 heads of {width} over {pairs} that all read"
        yield Case(name, kernels.attention, (queries, keys, values, last), exact, {"scale": width**-0.5})
        yield parts_of_attention(dtype, width)
        q, positions = normal(dtype, 3, 4, width, seed=6), int32(17, 3, 16)
        keys, values = normal(dtype, 2, 2, 20, width, seed=5)
        exact = reference.prefill_attention(q, keys, values, positions, width**-0.5)
        name = f"3 rows of 4 heads of {width}"
        rows = q, keys, values, positions
        yield Case(name, kernels.prefill_attention, rows, exact, {"scale": width**-0.5}, slack=1)
        # Several tiles of keys, waves without rows, a scale that turns the order over, and scores far apart.
        q, gate, positions = (
            normal(dtype, 37, 1, width, seed=6),
            normal(dtype, 37, width, seed=38),
            int32(*range(2, 39)),
        )
        keys, values = normal(dtype, 2, 1, 70, width, seed=5)
        positions[::2] += 31
        exact = reference.prefill_attention(q, keys, values, positions, -0.5, gate)
        options = {"scale": -0.5, "gate": hiprt.array(gate)}
        name = f"37 rows of a head of {width} over 70 positions, gated"
        yield Case(name, kernels.prefill_attention, (q, keys, values, positions), exact, options, slack=1)
        if tile_rows(dtype, width, TURNED) != tile_rows(dtype, width):
            yield Case(name, turned_attention, (q, keys, values, positions), exact, options, slack=1)
        qkv, weight = normal(dtype, 1, 5 * width, seed=30), normal(dtype, width, seed=31)
        writes = partial(kernels.norm_rope_write, heads=2, base=1e4)
        caches = normal(dtype, 2, 1, 2, 9, width)[:, :, :1]
        given = qkv[:, : 4 * width], weight, weight, int32(3), caches[0], caches[1]
        exact, _, _ = reference.norm_rope_write(*given, 2, 1e4)
        yield Case(f"2 heads of {width} and one to keep", writes, given, exact)
        for pairs in DEFAULT.attention_heads:
            for dims in TURNED_DIMS[width]:
                yield joined(dtype, width, dims, pairs, 20, 17)
        yield joined(dtype, width, width, DEFAULT.attention_heads[0], 257, 140)
    for width in WIDTHS:
        yield from coded(dtype, width)
    for width in HEAD_WIDTHS:
        yield from paged(dtype, width)
    cache, x = normal(dtype, 3, 9, 40, seed=7), normal(dtype, 3, 40, seed=8)
    exact = reference.kv_write(cache, x, 7)
    yield Case("3 heads of 40", kernels.kv_write, (cache, x, int32(7)), exact)
    turned = normal(dtype, 3, 80, seed=9)
    for traditional in (False, True):
        options = {"base": 1e4, "dims": 64, "traditional": traditional}
        name = "3 heads, 64 of 80 elements, position 100003"
        exact = reference.rope(turned, 100003, **options)  # type: ignore[arg-type]
        yield Case(name, kernels.rope, (turned, int32(100003)), exact, options)


def coded(dtype: np.dtype[Any], width: int) -> Iterator[Case]:
    """Yield the writing of caches in 8 bits, attention over them, and a cache as numbers."""
    for pairs in DEFAULT.attention_heads:
        q, host = normal(dtype, 4, width), normal(dtype, 2, pairs, 20, width, seed=5)
        (keys, key_scales), (values, value_scales) = map(reference.codes_of, host)
        caches = keys, values, key_scales, value_scales
        exact = reference.quantized_attention(q, *caches, 17, width**-0.5)
        name = f"4 heads of {width} over 18 positions of {pairs} in 8 bits"
        yield Case(name, kernels.quantized_attention, (q, *caches, int32(17)), exact, {"scale": width**-0.5})
    queries, last = normal(dtype, 3, 4, width), np.array([16, 17, 2], np.int32)
    exact = np.stack([reference.quantized_attention(q, *caches, at, width**-0.5) for q, at in zip(queries, last)])
    name = f"3 rows of 4 heads of {width} over {pairs} in 8 bits that all read"
    yield Case(name, kernels.quantized_attention, (queries, *caches, last), exact, {"scale": width**-0.5})
    qkv, weight = normal(dtype, 1, 4 * width, seed=30), normal(dtype, width, seed=31)
    one = keys[None, :1], values[None, :1], key_scales[None, :1], value_scales[None, :1]
    written = qkv, weight, weight, int32(3), *one
    exact, _, _ = reference.norm_rope_quantize(*written, 2, 1e4)
    op = partial(kernels.norm_rope_quantize, heads=2, base=1e4)
    yield Case(f"2 heads of {width} and one to keep in 8 bits", op, written, exact)
    exact = reference.dequantize_cache(keys, key_scales)
    name, options = f"20 positions of heads of {width} in 8 bits", {"dtype": dtype}
    yield Case(name, kernels.dequantize_cache, (keys, key_scales, int32(19)), exact, options)


def paged(dtype: np.dtype[Any], width: int) -> Iterator[Case]:
    """Yield attention of two sequences over caches in blocks of one pool."""
    table, last = np.array([[3, 0], [4, 1]], np.int32), np.array([17, 30], np.int32)
    for pairs in DEFAULT.attention_heads:
        queries, (keys, values) = normal(dtype, 2, 4, width), normal(dtype, 2, pairs, 5, 16, width, seed=5)
        exact = np.stack([
            reference.paged_attention(q, keys, values, blocks, at, width**-0.5)
            for q, blocks, at in zip(queries, table, last)
        ])  # fmt: skip
        name = f"2 rows of 4 heads of {width} over 18 and 31 positions of {pairs} in blocks"
        given = queries, keys, values, table, last
        yield Case(name, kernels.paged_attention, given, exact, {"scale": width**-0.5})


def joined(dtype: np.dtype[Any], width: int, dims: int, pairs: int, capacity: int, place: int) -> Case:
    """Return the case of heads that are normed, turned (`dims` elements), written and attended to by one kernel."""
    qkv, weight = normal(dtype, 1, (4 + 2 * pairs) * width, seed=35), normal(dtype, width, seed=36)
    keys, values = normal(dtype, 2, 1, pairs, capacity, width, seed=37)
    given, scale = (qkv, weight, weight, int32(place), keys, values), width**-0.5
    exact, _, _ = reference.norm_rope_attention(*given, 4, 1e4, scale, dims=dims)
    op = partial(kernels.norm_rope_attention, heads=4, base=1e4, scale=scale, dims=dims)
    turned = f", {dims} of them turned," if dims < width else ""
    name = f"4 heads of {width}{turned} over {place + 1} of {capacity} positions of {pairs}"
    return Case(name, op, given, exact, slack=4)


def parts_of_attention(dtype: np.dtype[Any], width: int) -> Case:
    """Return the case of two heads whose three parts are combined."""
    sums, tops = normal(np.dtype(np.float32), 1, 2, 3, width, seed=32), normal(np.dtype(np.float32), 1, 2, 3, seed=33)
    norms = np.abs(tops) + np.float32(1)
    parts = np.concatenate([sums, tops[..., None], norms[..., None]], axis=-1)
    shares = np.exp2(tops.astype(np.float64))
    exact = (shares[..., None] * sums).sum(2) / (shares * norms).sum(2)[..., None]
    two_heads = GroupedHeads(1, True, 2, 1, 3, width, 0, False)

    def call(parts: Array) -> Array:
        out = hiprt.empty((1, 2, width), dtype)
        combine_launch(two_heads, 3, dtype)(current_stream(), parts=parts, gate=out, out=out)
        return out

    return Case(f"2 heads of {width} in 3 parts", call, (parts,), exact)
