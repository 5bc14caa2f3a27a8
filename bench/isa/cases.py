"""Small calls of every op with their exact results; together they launch every instance of every kernel."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np

import hiprt
from hiprt import kernels
from hiprt.array import Array, bfloat16
from hiprt.bench.isa.attention_cases import heads
from hiprt.bench.isa.case import Case, int32, normal
from hiprt.bench.isa.hybrid_cases import hybrids, layers
from hiprt.bench.isa.sampling_cases import tokens
from hiprt.kernels.ops.experts.experts import CHOSEN, EXPERT_WIDTHS, ahead_bits
from hiprt.kernels.ops.matmul.matmul import TILE_ROWS
from hiprt.kernels.ops.quantized.formats import BITS, GROUP_SIZES
from hiprt.kernels.ops.quantized.qmv_kernels import (
    OTHER_BITS,
    SHARED,
    block_instances,
    dot_instances,
    phased_instances,
    several_instances,
    shared_block_instances,
)
from hiprt.kernels.reference import ops as reference
from hiprt.kernels.reference.quantize import FLOATING, dequantize, quantize, quantize_floating
from hiprt.kernels.tuning.blocks import TEMPLATE as BLOCKS, Blocks
from hiprt.kernels.tuning.dots import MOST_VECTORS, Dots
from hiprt.kernels.tuning.sharing import Sharing
from hiprt.kernels.tuning.table import DEFAULT

__all__ = ["cases"]

FLOATS = (np.dtype(np.float16), bfloat16, np.dtype(np.float32))


def cases() -> Iterator[Case]:
    """Yield all cases."""
    for dtype in FLOATS:
        yield from elementwise(dtype)
        yield from norms(dtype)
        yield from rows(dtype)
        yield from hybrids(dtype)
        yield from layers(dtype)
        yield from heads(dtype)
        yield from tokens(dtype)
        for group, bits in product(GROUP_SIZES, BITS):
            yield from quantized(dtype, group, bits)
        for bits in ahead_bits(dtype, takes_loops=False):
            yield from experts(dtype, bits)
        yield from formats(dtype)
        if dtype.itemsize == 2:
            yield from dots(dtype)
            yield from blocks(dtype)
            yield from tiles(dtype)
    yield from steps()


def elementwise(dtype: np.dtype[Any]) -> Iterator[Case]:
    """Yield sums and gates, with and without 128-bit loads, with a remainder."""
    a, b = normal(dtype, 1027, seed=1), normal(dtype, 1027, seed=2)
    for op, exact in ((kernels.add, reference.add), (kernels.silu_mul, reference.silu_mul)):
        yield Case("1027 elements", op, (a, b), exact(a, b))
        yield Case("1026 elements, unaligned", op, (a, b), exact(a[1:], b[1:]), skipped=1)


def norms(dtype: np.dtype[Any]) -> Iterator[Case]:
    """Yield norms of one simdgroup and of eight to a row, in packs and singly, weighted and not."""
    for rows, width in ((9, 96), (9, 97), (2, 1024), (2, 1025)):
        x = normal(dtype, rows, width, seed=3)
        for weight in (normal(dtype, width, seed=4), None):
            name = f"{rows} rows of {width}" + (", no weight" if weight is None else "")
            yield Case(name, kernels.rms_norm, (x, weight, 1e-5), reference.rms_norm(x, weight, 1e-5))


def rows(dtype: np.dtype[Any]) -> Iterator[Case]:
    """Yield ops that work along rows, with one threadgroup for each row."""
    x, gate, weight = normal(dtype, 3, 300, seed=15), normal(dtype, 3, 300, seed=16), normal(dtype, 300, seed=17)
    name, eps = "3 rows of 300", 1e-5
    yield Case(name, kernels.layer_norm, (x, weight, weight, eps), reference.layer_norm(x, weight, weight, eps))
    exact = reference.gated_rms_norm(x, gate, weight, eps)
    yield Case(name, kernels.gated_rms_norm, (x, gate, weight, eps), exact)
    _, exact = reference.add_rms_norm(x, gate, weight, eps)
    yield Case(name, lambda *given: kernels.add_rms_norm(*given)[1], (x, gate, weight, eps), exact)
    y = normal(dtype, 300, 7, seed=28)
    yield Case("3 by 7, 300 deep", kernels.matmul, (x, y), reference.matmul(x, y))
    exact = reference.matmul(x, gate.T)
    yield Case("3 by 3, 300 deep", lambda x, gate: kernels.matmul(x, gate.T), (x, gate), exact)
    yield Case(name, kernels.softmax, (x,), reference.softmax(x))
    yield Case(name, kernels.logsumexp, (x, 1), reference.logsumexp(x, 1))


def quantized(dtype: np.dtype[Any], group: int, bits: int) -> Iterator[Case]:
    """Yield products and embeddings of one format: an odd number of rows, two groups, ids that do not exist."""
    x, stored = normal(dtype, 2, 2 * group, seed=11), quantize(normal(dtype, 11, 2 * group, seed=12), group, bits)
    options = {"group_size": group, "bits": bits}
    exact = reference.quantized_matmul(x, *stored, group, bits)
    yield Case(f"2 by 11, {2 * group} wide", kernels.quantized_matmul, (x, *stored), exact, options)
    # Codes are read as a power of two plus the code; what that adds is taken off again, in float32.
    yield Case(f"1 by 11, {2 * group} wide", kernels.qmv, (x[:1], *stored), exact[:1], options, slack=1)
    yield Case(f"2 by 11, {2 * group} wide", kernels.qmv, (x, *stored), exact, options, slack=1)
    if (group, bits) == (64, 4) and dtype.itemsize == 2:
        yield from shared_rows(dtype)
    if group == GROUP_SIZES[0]:
        # Of larger tiles the last one has few rows, which waves of 64 multiply alone.
        for count in (33, *(4 * rows + 9 for rows in DEFAULT.tile_rows[:-1] if dtype.itemsize == 2)):
            x = normal(dtype, count, 2 * group, seed=11)
            exact = reference.quantized_matmul(x, *stored, group, bits)
            name = f"{count} by 11, {2 * group} wide"
            yield Case(name, kernels.quantized_matmul, (x, *stored), exact, options, slack=1)
        yield tiled(dtype, bits)
    ids = int32(10, 0, -1, 11)
    rows = reference.quantized_embedding(ids, *stored, group, bits)
    name = f"4 rows, {2 * group} wide, two of them missing"
    yield Case(name, kernels.quantized_embedding, (ids, *stored), rows, options)


def few_vectors(dtype: np.dtype[Any], group: int, bits: int) -> Iterator[Case]:
    """Yield the product of a vector with codes that cross words or are several to a byte."""
    x, stored = normal(dtype, 1, 2 * group, seed=11), quantize(normal(dtype, 11, 2 * group, seed=12), group, bits)
    exact, options = reference.qmv(x, stored, group, bits), {"group_size": group, "bits": bits}
    yield Case(f"1 by 11, {2 * group} wide", kernels.qmv, (x, *stored), exact, options, slack=1)


def shared_rows(dtype: np.dtype[Any]) -> Iterator[Case]:
    """Yield products whose rows are shared by simdgroups, the last of which has two groups only of the width."""
    for i, (rows, split) in enumerate(SHARED):
        is_normed, is_added, is_gated = i % 2 == 0, i % 4 == 1, rows > 1 and i % 3 == 0
        width, count = 1024 * (split - 1) + 128, 6
        x = np.sign(normal(dtype, 1, width, seed=51))
        stored = quantize(normal(dtype, count, width, seed=52) * dtype.type(width**-0.5), 64, 4)
        given: dict[str, Any] = {"swiglu": is_gated}
        if is_normed:
            given["norm"] = normal(dtype, width, seed=53)
        if is_added:
            given["residual"] = normal(dtype, 1, count // 2 if is_gated else count, seed=54)
        exact = reference.qmv(x, stored, 64, 4, **given)
        given = {name: hiprt.array(value) if isinstance(value, np.ndarray) else value for name, value in given.items()}
        name = f"{count} rows of {width}, {rows} a simdgroup, shared by {split}"
        yield Case(name, kernels.qmv, (x, *stored), exact, {**given, "tiling": Sharing(rows, split)}, slack=1)


def dots(dtype: np.dtype[Any]) -> Iterator[Case]:
    """Yield products by integer dot instructions; where activations are rounded to 8 bits they are 1 or -1."""
    templates = (*dot_instances(False), *several_instances(False), *phased_instances(False))
    for template in (each for each in templates if each["T"] == dtype):
        group, bits, width, rows = (template[name] for name in ("GROUP", "BITS", "WIDTH", "ROWS"))
        split, teams, planes = (template[name] for name in ("SPLIT", "TEAMS", "PLANES"))
        most = template.get("VECTORS", 1)
        held, kept = template.get("HELD", 0), template.get("KEPT_ROUNDS", 1)
        # As many rows as a threadgroup takes in more rounds of tiles than it keeps.
        count = 2 * rows * teams * kept + 6 if held else 22
        sharing = Dots(rows, split, teams, 2, planes, most, held, kept)
        vectors = most if held else min(2 * most - 1, MOST_VECTORS)  # two threadgroups have some of them
        x = normal(dtype, vectors, width, seed=61)
        if planes == 2:
            x = np.sign(x)
        stored = quantize(normal(dtype, count, width, seed=62) * dtype.type(width**-0.5), group, bits)
        given: dict[str, Any] = {"swiglu": template["GATED"]}
        if template["NORMED"]:
            norm = normal(dtype, width, seed=63)
            given["norm"] = norm if planes == 4 else np.sign(norm)
        if template["ADDED"]:
            given["residual"] = normal(dtype, vectors, count, seed=64)
        exact = reference.qmv(x, stored, group, bits, **given)
        given = {name: hiprt.array(value) if isinstance(value, np.ndarray) else value for name, value in given.items()}
        given |= {"tiling": sharing, "group_size": group, "bits": bits}
        yield Case(f"{count} rows of {width}, {sharing}", kernels.qmv, (x, *stored), exact, given, slack=1)


def blocks(dtype: np.dtype[Any]) -> Iterator[Case]:
    """Yield products of several vectors by matrix instructions; the last block of rows is not whole."""
    instances = [*block_instances(False), *shared_block_instances(False)]
    for i, template in enumerate(each for each in instances if each["T"] == dtype):
        group, bits, width = (template[name] for name in ("GROUP", "BITS", "WIDTH"))
        sharing = Blocks(*(template[name] for name in BLOCKS if name in template))
        rows, vectors = 16 * sharing.blocks + 6, (16, 9, 5)[i % 3]
        # The norm is 1 or -1, so that no rounding of it shows.
        x = normal(dtype, vectors, width, seed=66)
        stored = quantize(normal(dtype, rows, width, seed=67) * dtype.type(width**-0.5), group, bits)
        given: dict[str, Any] = {"swiglu": template["GATED"]}
        if template["NORMED"]:
            given["norm"] = np.sign(normal(dtype, width, seed=68))
        if template["ADDED"]:
            given["residual"] = normal(dtype, vectors, rows, seed=69)
        exact = reference.qmv(x, stored, group, bits, **given)
        given = {name: hiprt.array(value) if isinstance(value, np.ndarray) else value for name, value in given.items()}
        given |= {"tiling": sharing, "group_size": group, "bits": bits}
        name = f"{vectors} by {rows}, {width} wide, {sharing}"
        yield Case(name, kernels.qmv, (x, *stored), exact, given, slack=1)


def experts(dtype: np.dtype[Any], bits: int) -> Iterator[Case]:
    """Yield the experts of a token, one of which does not exist; its norm is 1, so that no rounding of it shows."""
    (width, hidden), places = EXPERT_WIDTHS, np.arange(CHOSEN, dtype=np.int32)[None] % 3
    x, y = np.sign(normal(dtype, 1, width, seed=31)), normal(dtype, 1, CHOSEN, hidden, seed=32)
    norm, shares = normal(dtype, width, seed=33), normal(dtype, 1, CHOSEN, seed=34)
    options: dict[str, Any] = {"group_size": 64, "bits": bits}
    stacks = []
    for rows, size in ((6, width), (5, hidden)):
        stored = quantize(normal(dtype, 2 * rows, size, seed=rows) * dtype.type(size**-0.5), 64, bits)
        values = reference.weights(*stored, 64, bits).reshape(2, rows, size)
        stacks.append(([part.reshape(2, rows, -1) for part in stored], values))
    (opening, opening_values), (closing, closing_values) = stacks
    exact = reference.moe_gate_up(x, places, opening_values, norm, 0.0)
    # Gates and ups are sums of terms that cancel; an error of one counts as often as the other is large.
    vector = np.asarray(reference.rms_norm(x, norm, 0.0), np.float64)[0]
    magnitude = float((np.abs(opening_values) @ np.abs(vector)).max() * np.abs(opening_values @ vector).max())

    def gate_up(x: Array, places: Array, norm: Array, *w: Array, tiling: Dots | None = None) -> Array:
        return kernels.moe_gate_up(x, places, *w, norm=norm, eps=0.0, tiling=tiling, **options)

    given = x, places, norm, *opening
    yield Case(f"{CHOSEN} experts of 3 columns", gate_up, given, exact, magnitude=magnitude)
    exact = reference.moe_down(y, places, shares, closing_values)
    yield Case(f"{CHOSEN} experts of 5 rows", kernels.moe_down, (y, places, shares, *closing), exact, options)
    if dtype.itemsize == 2:
        sharing = Dots(4, 1, 8, 1)
        down = partial(kernels.moe_down, tiling=sharing, **options)
        yield Case(f"{CHOSEN} experts of 5 rows, {sharing}", down, (y, places, shares, *closing), exact, slack=1)
        exact = reference.moe_gate_up(x, places, opening_values, norm, 0.0)
        name, part = f"{CHOSEN} experts of 3 columns, {sharing}", partial(gate_up, tiling=sharing)
        yield Case(name, part, given, exact, slack=1, magnitude=magnitude)


def written(w: Array, mode: str) -> Array:
    """Return the codes of a matrix."""
    return kernels.quantize(w, mode=mode)[0]


def formats(dtype: np.dtype[Any]) -> Iterator[Case]:
    """Yield ops that take any format: quantising to 5 bits and back, products with a matrix and its transpose."""
    if dtype == bfloat16:
        for bits in OTHER_BITS:
            yield from few_vectors(dtype, 64, bits)
    w = normal(dtype, 64, 64, seed=13)
    stored = quantize(w, 32, 5)
    options = {"group_size": 32, "bits": 5}
    yield Case("64 by 64, 5 bits", lambda w: kernels.quantize(w, 32, 5)[0], (w,), stored[0])
    for mode in FLOATING:
        write = partial(written, mode=mode)
        yield Case(f"64 by 64, {mode}", write, (w,), quantize_floating(w, mode)[0])
    yield Case("64 by 64, 5 bits", kernels.dequantize, stored, dequantize(*stored, 32, 5), options)
    x = normal(dtype, 2, 64, seed=14)
    for transpose in (False, True):
        values = reference.weights(*stored, 32, 5)
        exact = reference.gather_qmm(x, values, None, None, transpose)
        name = f"2 by 64, 64 wide, 5 bits, transpose={transpose}"
        yield Case(name, kernels.quantized_matmul, (x, *stored), exact, {**options, "transpose": transpose})


def tiles(dtype: np.dtype[Any]) -> Iterator[Case]:
    """Yield products of many rows: plain ones, with b by rows and by columns, and with codes that cross words."""
    for rows, depth, columns in ((33, 96, 72), (4 * TILE_ROWS[0], 64, 8)):
        a, b = normal(dtype, rows, depth, seed=71), normal(dtype, columns, depth, seed=72)
        name, exact = f"{rows} by {columns}, {depth} deep", reference.matmul(a, b.T)
        yield Case(name, lambda a, b: kernels.matmul(a, b.T), (a, b), exact)
        yield Case(name, kernels.matmul, (a, np.ascontiguousarray(b.T)), exact)
    for bits in OTHER_BITS:
        yield tiled(dtype, bits)
    yield stacked(dtype)


def stacked(dtype: np.dtype[Any]) -> Case:
    """Return the product of rows with matrices of a stack: runs within a tile and across two, a longer one, none."""
    lengths = (20, 25, 32, 1, 70, 0, 9)
    chosen = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    x = normal(dtype, len(chosen), 1, 64, seed=17)
    stored = quantize(normal(dtype, len(lengths) * 11, 64, seed=18), 32, 4)
    values = reference.weights(*stored, 32, 4).reshape(len(lengths), 11, 64)
    stack = [part.reshape(len(lengths), 11, -1) for part in stored]
    operands = (x, *stack, None, chosen)
    options = {"group_size": 32, "bits": 4, "sorted_indices": True}
    exact = reference.gather_qmm(x, values, None, chosen)
    return Case(f"runs of {lengths} rows by 11, 64 wide", kernels.gather_qmm, operands, exact, options, slack=1)


def tiled(dtype: np.dtype[Any], bits: int) -> Case:
    """Return the product of many rows with codes of some bits; steps of a tile come in pairs, and one is left."""
    x, stored = normal(dtype, 33, 160, seed=15), quantize(normal(dtype, 11, 160, seed=16), 32, bits)
    exact, options = reference.quantized_matmul(x, *stored, 32, bits), {"group_size": 32, "bits": bits}
    return Case("33 by 11, 160 wide", kernels.quantized_matmul, (x, *stored), exact, options, slack=1)


def steps() -> Iterator[Case]:
    """Yield a range of numbers, random words, and the step block inside a prompt and behind it."""
    yield Case("1000 by 7", kernels.arange, (5, 7005, 7), np.arange(5, 7005, 7, dtype=np.int32))
    key = np.array([3, 5], np.uint32)
    yield Case("1001 words", kernels.random_bits, (key, (1001,)), reference.random_bits(key, (1001,)))
    for position in (1, 4):
        step, prompt = int32(3, position, 4, 9), np.arange(100, 109, dtype=np.int32)
        exact = step.copy()
        reference.advance(exact, prompt.copy(), 55)
        name = f"position {position} with a prompt of 4"
        yield Case(name, kernels.advance, (step, prompt, int32(55)), exact)
    table, places = np.array([[3, -1, 0], [4, 1, 2]], np.int32), np.array([40, 47], np.int32)
    slots, name = reference.block_slots(table, places, 16), "2 rows, blocks of 16"
    yield Case(name, partial(kernels.block_slots, block_rows=16), (table, places), slots)
    yield from guesses()


def guesses() -> Iterator[Case]:
    """Yield guesses from a long text, and what is taken of some."""
    text = np.random.default_rng(9).integers(0, 40, 3000).astype(np.int32)
    step = int32(text[2900], 2900, 1, 3000)
    exact = reference.draft_ngram(step, text, 7)
    yield Case("7 guesses behind 2901 tokens", kernels.draft_ngram, (step, text, 7), exact)
    for right in (0, 2, 3):
        step, text = int32(5, 3, 1, 9), np.arange(100, 109, dtype=np.int32)
        draft, chosen = np.array([[5, 6, 7, 8], [3, 4, 5, 6]], np.int32), int32(6, 7, 8, 9)
        chosen[right] = 50
        exact = step.copy()
        reference.accept_draft(exact, text.copy(), draft, chosen)
        given = step, text, draft, chosen, np.zeros((2, 5), np.int32), int32(4)
        yield Case(f"{right} of 3 guesses are right", kernels.accept_draft, given, exact)
