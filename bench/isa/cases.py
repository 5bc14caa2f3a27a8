"""Small calls of every op with their exact results; together they launch every instance of every kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hiprt
from hiprt import kernels
from hiprt.array import Array, bfloat16, empty
from hiprt.kernels.lang.launch import Launch
from hiprt.kernels.ops.attention.attention import combine_launch
from hiprt.kernels.ops.attention.grouped_heads import HEAD_WIDTHS, GroupedHeads
from hiprt.kernels.ops.attention.prefill_attention import TURNED, plan_of as prefill_plan, tile_rows
from hiprt.kernels.ops.experts.experts import CHOSEN, EXPERT_WIDTHS
from hiprt.kernels.ops.matmul.matmul import TILE_ROWS
from hiprt.kernels.ops.quantized.formats import AFFINE_BITS, BITS, GROUP_SIZES
from hiprt.kernels.ops.quantized.qmv import (
    SHARED,
    block_instances,
    dot_instances,
    several_instances,
    shared_block_instances,
)
from hiprt.kernels.ops.quantized_cache.coded_heads import WIDTHS
from hiprt.kernels.ops.recurrent.gated_delta import plan_of as gated_delta_plan
from hiprt.kernels.ops.recurrent.gated_delta_chunks import CHUNK, GatedDeltaChunks
from hiprt.kernels.ops.recurrent.reference import gated_delta_factors
from hiprt.kernels.ops.reduction.argmax import PART, LargestPlan
from hiprt.kernels.ops.sampling.filter_logits import (
    COUNTED,
    KEYS,
    STATES,
    SUMS,
    FilterPlan,
    plan_of as filter_plan,
)
from hiprt.kernels.ops.sampling.sample import plan_of as sample_plan
from hiprt.kernels.reference import ops as reference
from hiprt.kernels.reference.quantize import FLOATING, dequantize, quantize, quantize_floating
from hiprt.kernels.tuning.blocks import TEMPLATE as BLOCKS, Blocks
from hiprt.kernels.tuning.dots import MOST_VECTORS, Dots
from hiprt.kernels.tuning.sharing import Sharing
from hiprt.kernels.tuning.table import DEFAULT
from hiprt.kernels.tuning.target import target_of
from hiprt.stream import current_stream

__all__ = ["Case", "cases"]

FLOATS = (np.dtype(np.float16), bfloat16, np.dtype(np.float32))
Host = NDArray[Any]


@dataclass(frozen=True)
class Case:
    """One call of an op.

    Attributes
    ----------
    name : str
        What is special about this call.
    op : callable
        The op; it launches one kernel and returns the array that it wrote.
    given : tuple
        The arguments; host arrays are copied to the device.
    exact : ndarray
        What the array must hold.
    options : dict
        The keyword arguments.
    skipped : int
        How many elements at the front of each array the op does not get, so that addresses are not aligned.
    slack : float
        The error that rounding of intermediates may make, in roundings of the largest exact value.
    magnitude : float
        What roundings of float32 are relative to, where terms cancel; the largest exact value where it is more.
    """

    name: str
    op: Callable[..., Array]
    given: tuple[Any, ...]
    exact: Host
    options: dict[str, Any] = field(default_factory=dict)
    skipped: int = 0
    slack: float = 0.0
    magnitude: float = 0.0

    def call(self) -> Array:
        """Call the op on the device; return the array that it wrote."""
        arrays = [hiprt.array(value) if isinstance(value, np.ndarray) else value for value in self.given]
        return self.op(*(value[self.skipped :] if self.skipped else value for value in arrays), **self.options)


def normal(dtype: np.dtype[Any], *shape: int, seed: int = 0) -> Host:
    """Return normal numbers."""
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def int32(*values: int) -> Host:
    """Return int32 numbers."""
    return np.array(values, np.int32)


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
        for bits in BITS:
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


def hybrids(dtype: np.dtype[Any]) -> Iterator[Case]:
    """Yield experts chosen and combined, and a step of a gated-delta layer."""
    logits = normal(dtype, 2, 40, seed=18)
    places, _ = reference.moe_route(logits, 3)
    yield Case("3 of 40 experts", lambda logits: kernels.moe_route(logits, 3)[0], (logits,), places)
    _, shares = reference.moe_route(logits, 3, True, True)
    route = lambda logits: kernels.moe_route(logits, 3, shared=True)[1]  # noqa: E731
    yield Case("3 of 39 experts and a shared one", route, (logits,), shares)
    y, weights = normal(dtype, 2, 3, 70, seed=19), normal(dtype, 2, 3, seed=20)
    yield Case("3 experts", kernels.moe_combine, (y, weights), reference.moe_combine(y, weights))
    given = normal(dtype, 2, 2, 40, seed=21), normal(dtype, 2, 3, 40, seed=22), normal(dtype, 40, 4, seed=23)
    yield Case("2 steps of 40 channels", kernels.conv_step, given, reference.conv_step(*given)[0])
    q, k = normal(dtype, 2, 1, 2, 2, 40, seed=24) * dtype.type(0.2)
    v, state = normal(dtype, 1, 2, 4, 6, seed=25), normal(np.dtype(np.float32), 1, 4, 6, 40, seed=26)
    g, beta = np.abs(np.sin(normal(np.dtype(np.float32), 2, 1, 2, 4, seed=27)))
    rule = q, k, v, g, beta, state
    yield Case("2 steps of 4 heads", kernels.gated_delta, rule, reference.gated_delta(*rule)[0])
    q, k = normal(dtype, 2, 1, 33, 1, 128, seed=60) * dtype.type(0.08)
    v, state = normal(dtype, 1, 33, 1, 16, seed=61), normal(np.dtype(np.float32), 1, 1, 16, 128, seed=62)
    g, beta = np.abs(np.sin(normal(np.dtype(np.float32), 2, 1, 33, 1, seed=63)))
    rule = q, k, v, g, beta, state
    factors = gated_delta_factors(q, k, g, beta, CHUNK)
    yield Case("33 steps of a head", chunk_factors, rule, factors)
    exact = reference.gated_delta(*rule)[0]
    yield Case("33 steps of a head", chunks, (*rule, factors.astype(np.float32)), exact)
    a, dt_bias, a_log = normal(dtype, 3, 8), normal(dtype, 8), normal(np.dtype(np.float32), 8)
    gates = a, a, a_log, dt_bias
    exact = reference.gated_delta_gates(*gates)[0]
    yield Case("3 steps of 8 heads", lambda *given: kernels.gated_delta_gates(*given)[0], gates, exact)


def planned_chunks(*given: Array) -> GatedDeltaChunks:
    """Return the launches of the gated delta rule by chunks."""
    plan = gated_delta_plan(*(each.form for each in given), target_of(current_stream()))
    assert isinstance(plan, GatedDeltaChunks)
    return plan


def chunk_factors(q: Array, k: Array, v: Array, g: Array, beta: Array, state: Array) -> Array:
    """Launch what the chunks need beside the state."""
    plan = planned_chunks(q, k, v, g, beta, state)
    factors = empty(plan.shape, np.dtype(np.float32))
    plan.factors(current_stream(), q=q, k=k, g=g, beta=beta, factors=factors)
    return factors


def chunks(q: Array, k: Array, v: Array, g: Array, beta: Array, state: Array, factors: Array) -> Array:
    """Launch the chunks of each head."""
    out = empty(v.shape, v.dtype)
    plan = planned_chunks(q, k, v, g, beta, state)
    plan.chunks(current_stream(), q=q, k=k, v=v, factors=factors, state=state, out=out)
    return out


def layers(dtype: np.dtype[Any]) -> Iterator[Case]:
    """Yield the step of a gated-delta layer of 2 heads of values, with and without the norm of the answers."""
    single, width = np.dtype(np.float32), 128
    proj, weight = normal(dtype, 1, 6 * width + 4, seed=41), normal(dtype, 4 * width, 4, seed=42)
    conv, a_log, dt_bias = (
        normal(dtype, 1, 3, 4 * width, seed=43),
        normal(single, 2, seed=44),
        normal(dtype, 2, seed=45),
    )
    state, norm = normal(single, 1, 2, width, width, seed=46), normal(dtype, width, seed=47)
    given = proj, weight, conv, a_log, dt_bias, state
    sizes: dict[str, Any] = {"key_heads": 1, "value_heads": 2, "key_width": width, "value_width": width}
    made, _ = reference.gdn_inputs(*given[:5], (1, 2, width, width))
    yield Case("keys of 2 heads", lambda *given: kernels.gdn_inputs(*given, **sizes)[1], given[:5], made[1])
    steps = normal(dtype, 1, 10, given[0].shape[-1], seed=64), *given[1:5]
    made, _ = reference.gdn_inputs(*steps, (1, 2, width, width))
    yield Case("10 steps, keys of 2 heads", lambda *given: kernels.gdn_inputs(*given, **sizes)[1], steps, made[1])
    for each in (None, norm):
        exact = reference.gdn_step(*given, 1, each)[0]
        op = lambda *given: kernels.gdn_step(*given[:6], norm=given[6] if len(given) > 6 else None, **sizes)  # noqa: E731
        name = "2 heads" + ("" if each is None else ", normed")
        yield Case(name, op, given if each is None else (*given, each), exact)


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
            yield joined(dtype, width, pairs, 20, 17)
        yield joined(dtype, width, DEFAULT.attention_heads[0], 257, 140)
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


def joined(dtype: np.dtype[Any], width: int, pairs: int, capacity: int, place: int) -> Case:
    """Return the case of heads that are normed, turned, written and attended to by one kernel."""
    qkv, weight = normal(dtype, 1, (4 + 2 * pairs) * width, seed=35), normal(dtype, width, seed=36)
    keys, values = normal(dtype, 2, 1, pairs, capacity, width, seed=37)
    given, scale = (qkv, weight, weight, int32(place), keys, values), width**-0.5
    exact, _, _ = reference.norm_rope_attention(*given, 4, 1e4, scale)
    op = partial(kernels.norm_rope_attention, heads=4, base=1e4, scale=scale)
    return Case(f"4 heads of {width} over {place + 1} of {capacity} positions of {pairs}", op, given, exact, slack=4)


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


def tokens(dtype: np.dtype[Any]) -> Iterator[Case]:
    """Yield the choice of tokens: the first of the largest, and draws."""
    for width in (1501, 1504):
        logits = normal(dtype, 2, width, seed=10)
        logits[:, 700] = logits[:, 1303] = 9
        yield Case(f"2 rows of {width} with equals", kernels.argmax, (logits,), reference.argmax(logits))
        for heat in (0.0, 0.8):
            given = logits[:1], np.array([heat], np.float32), np.array([77], np.uint32), int32(5)
            exact = int32(reference.sample(logits[0], heat, 77, 5))
            yield Case(f"{width} logits, temperature {heat}", kernels.sample, given, exact)
    found = int32(7, 4, 9, 40, -3, 50, 9, 70).reshape(4, 2)
    yield Case("4 threadgroups with equals", choose, (found,), int32(40))
    alike = np.full(1500, 0.5, dtype)
    tops, p = np.full(2, 0.5, np.float32), np.array([0.9], np.float32)
    yield Case("1500 equal logits", find_tops, (alike,), tops)
    yield Case("1500 equal logits", search, (alike, tops, int32(9), p), alike_words(dtype))
    yield Case("1500 equal logits, 9 wanted", keep, (alike, tops, int32(9), p, alike_words(dtype)), alike)
    for wide in (np.full(width, 0.5, dtype) for width in (1501, 1504)):
        how = np.array([0.8], np.float32), np.array([77], np.uint32), int32(5)
        rules = tops, int32(9), p, alike_words(dtype, wide.size)
        exact = int32(reference.sample(wide, 0.8, 77, 5))
        yield Case(f"{wide.size} equal logits, 9 wanted", draw, (wide, *how, *rules), exact)
    seen = int32(5, 700, 5, 9000)
    factor = np.array([1.3], np.float32)
    exact = reference.repetition_penalty(logits[0], seen, 2, 1.3)
    yield Case("3 tokens before", kernels.repetition_penalty, (logits[0], seen, int32(2), factor), exact)


def planned(logits: Array, top_k: Array | None = None, top_p: Array | None = None) -> FilterPlan:
    """Return the launches of `filter_logits`."""
    plan: FilterPlan = filter_plan(logits, top_k, top_p, None, target_of(current_stream()))
    return plan


def alike_words(dtype: np.dtype[Any], width: int = 1500) -> NDArray[np.uint32]:
    """Return what the first level of the search finds where all logits are one half."""
    key, levels, digit = KEYS[dtype.name]
    summed = SUMS << digit if key == COUNTED else levels * (SUMS << digit)
    words = np.zeros(summed + (1 << key if key == COUNTED else 0) + levels * STATES, np.uint32)
    mass = width << 40
    words[-levels * STATES] = 0x3F000000
    words[SUMS * (0xBF000000 >> (32 - digit)) :][:SUMS] = [width, mass & 0x3FFFF, mass >> 18 & 0x3FFFF, mass >> 36]
    if key == COUNTED:
        words[summed + (0xBF000000 >> (32 - key))] = width
    return words


def choose(found: Array) -> Array:
    """Launch the choice of the largest of what threadgroups found."""
    out = empty(1, np.dtype(np.int32))
    Launch(PART, (1, 1, 1), (32, 1, 1), groups=len(found))(current_stream(), parts=found, out=out)
    return out


def find_tops(logits: Array) -> Array:
    """Launch the search for the largest logits."""
    return planned(logits).find_tops(current_stream(), logits)[0]


def search(logits: Array, tops: Array, top_k: Array, top_p: Array) -> Array:
    """Launch the first level of the search, and return what it adds up."""
    plan = planned(logits, top_k, top_p)
    found = hiprt.zeros(plan.words, np.uint32)
    plan.levels[0](current_stream(), logits=logits, top_k=top_k, top_p=top_p, tops=tops, found=found)
    return found


def level_one(last: Launch) -> Launch:
    """Return a launch that looks at what one launch of the search found."""
    return Launch(last.kernel, last.grid, last.threads, last.template, **{**last.scalars, "level": 1})


def keep(logits: Array, tops: Array, top_k: Array, top_p: Array, found: Array) -> Array:
    """Launch the filter as if the search had settled one digit, so that all logits stay."""
    launch, out = level_one(planned(logits, top_k, top_p).keep), empty(logits.shape, logits.dtype)
    launch(current_stream(), logits=logits, top_k=top_k, top_p=top_p, tops=tops, found=found, min_p=top_p, out=out)
    return out


def draw(
    logits: Array,
    temperature: Array,
    seed: Array,
    position: Array,
    tops: Array,
    top_k: Array,
    top_p: Array,
    found: Array,
) -> Array:
    """Launch the draw as if the search had settled one digit, so that all logits stay."""
    stream = current_stream()
    filters = planned(logits, top_k, top_p)
    once = filters._replace(keep=level_one(filters.keep))
    target = replace(target_of(stream), table=DEFAULT)  # one launch, also where two are faster
    plan: LargestPlan = sample_plan(logits, temperature, seed, position, once, target)
    given = {"logits": logits, "temperature": temperature, "seed": seed, "position": position}
    return plan.run(stream, None, **given, top_k=top_k, top_p=top_p, min_p=top_p, tops=tops, found=found)


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
    templates = (*dot_instances(False), *several_instances(False))
    for template in (each for each in templates if each["T"] == dtype):
        group, bits, width, rows = (template[name] for name in ("GROUP", "BITS", "WIDTH", "ROWS"))
        split, teams, planes = (template[name] for name in ("SPLIT", "TEAMS", "PLANES"))
        most = template.get("VECTORS", 1)
        count, sharing = 22, Dots(rows, split, teams, 2, planes, most)
        vectors = min(2 * most - 1, MOST_VECTORS)  # of two threadgroups, some of which both have
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
    for bits in AFFINE_BITS:
        if bits not in BITS:
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
