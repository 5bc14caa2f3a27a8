"""Ops of a layer on shapes and dtypes that hypothesis draws, against float64."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import hiprt
from hiprt import kernels
from hiprt.kernels.reference import ops as reference
from hiprt.kernels.reference.quantize import FLOATING, dequantize, quantize, quantize_floating

DTYPES = {np.dtype(np.float16): 2.0**-10, hiprt.bfloat16: 2.0**-7, np.dtype(np.float32): 2.0**-19}
FLOAT, INT = np.float32, np.int32
EPS = 1e-6


class Draw:
    """Sizes and numbers of one example."""

    def __init__(self, data):
        self.data = data
        self.dtype = data.draw(st.sampled_from(list(DTYPES)))
        self.random = np.random.default_rng(data.draw(st.integers(0, 2**31)))

    def size(self, most, least=1):
        return self.data.draw(st.integers(least, most))

    def lead(self):
        """One to three axes of rows, which may have none."""
        return tuple(self.data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=3)))

    def normal(self, *shape, dtype=None):
        return self.random.normal(size=shape).astype(dtype or self.dtype)

    def gaps(self, host):
        """The same on the device, where it may lie turned, in steps or backwards."""
        step = self.data.draw(st.sampled_from([1, 2, -1]))
        wide = np.repeat(host, abs(step), -1)[..., :: -1 if step < 0 else 1]
        is_turned = self.data.draw(st.booleans())
        return (hiprt.array(wide.T).T if is_turned else hiprt.array(wide))[..., ::step]

    def whole(self, most, *shape):
        return self.random.integers(-1, most, shape).astype(INT)


def op(name, *hosts, **options):
    """Call an op with arrays of the host; return its results and what became of its operands, on the host."""
    given = [v if isinstance(v, hiprt.Array) else hiprt.array(v) for v in hosts]
    results = getattr(kernels, name)(*given, **options)
    results = results if isinstance(results, tuple) else (results,)
    return [x.numpy() for x in results], [x.numpy() for x in given]


def one(name, exact, *hosts, **options):
    return op(name, *hosts, **options)[0], [exact(*hosts, **options)]


def silu_mul(d):
    shape = (*d.lead(), d.size(70))
    return one("silu_mul", reference.silu_mul, d.normal(*shape), d.normal(*shape))


def rms_norm(d):
    width = d.size(300)
    return one("rms_norm", reference.rms_norm, d.normal(*d.lead(), width), d.normal(width), eps=EPS)


def layer_norm(d):
    width = d.size(300, 2)
    hosts = d.normal(*d.lead(), width), d.normal(width), d.normal(width)
    return one("layer_norm", reference.layer_norm, *hosts, eps=1e-2)


def gated_rms_norm(d):
    shape = (*d.lead(), d.size(300))
    hosts = d.normal(*shape), d.normal(*shape), d.normal(shape[-1])
    return one("gated_rms_norm", reference.gated_rms_norm, *hosts, eps=EPS)


def add_rms_norm(d):
    shape = (*d.lead(), d.size(300))
    x, residual, weight = d.normal(*shape), d.normal(*shape), d.normal(shape[-1])
    total = reference.add(x, residual).astype(d.dtype)
    found, _ = op("add_rms_norm", x, residual, weight, eps=EPS)
    return found, [total, reference.rms_norm(total, weight, EPS)]


def softmax(d):
    shape = (*d.lead(), d.size(300))
    return one("softmax", reference.softmax, d.normal(*shape))


def matmul(d):
    m, n, k = d.size(40), d.size(40), d.size(40)
    return one("matmul", reference.matmul, d.normal(m, k), d.normal(k, n))


def rope(d):
    rows, heads, half = d.size(4), d.size(5), d.size(20)
    x, position = d.normal(rows, heads, 2 * half), d.whole(5000, rows)
    options = {"base": 1e4, "dims": 2 * d.size(half), "traditional": d.data.draw(st.booleans())}
    return one("rope", reference.rope, x, position, **options)


def kv_write(d):
    rows, heads, width, capacity = d.size(4), d.size(3), d.size(40), d.size(9)
    cache, x = d.normal(rows, heads, capacity, width), d.normal(rows, heads, width)
    return one("kv_write", reference.kv_write, cache, x, d.whole(capacity + 1, rows))


def attention(d):
    pairs, repeat, width, capacity = d.size(3), d.size(4), d.size(256, 32), d.size(300)
    q, position = d.normal(pairs * repeat, width), d.whole(capacity + 2, 1)
    keys, values = d.normal(pairs, capacity, width), d.normal(pairs, capacity, width)
    found, _ = op("attention", q, keys, values, position, scale=width**-0.5)
    return found, [reference.attention(q, keys, values, int(position[0]), width**-0.5)]


def quantized_attention(d):
    pairs, repeat, width, capacity = d.size(3), d.size(4), 64 * 2 ** (d.size(3) - 1), d.size(300)
    q, position = d.normal(pairs * repeat, width), d.whole(capacity + 2, 1)
    (keys, key_scales), (values, value_scales) = (
        reference.codes_of(d.normal(pairs, capacity, width)) for _ in range(2)
    )
    caches = keys, values, key_scales, value_scales
    found, _ = op("quantized_attention", q, *caches, position, scale=width**-0.5)
    return found, [reference.quantized_attention(q, *caches, int(position[0]), width**-0.5)]


def prefill_attention(d):
    rows, pairs, repeat, width, capacity = d.size(20), d.size(2), d.size(3), d.size(128, 32), d.size(80)
    q, position = d.normal(rows, pairs * repeat, width), d.whole(capacity, rows)
    keys, values = d.normal(pairs, capacity, width), d.normal(pairs, capacity, width)
    hosts = q, keys, values, position
    return one("prefill_attention", reference.prefill_attention, *hosts, scale=width**-0.5)


def conv_step(d):
    batch, steps, channels, taps = d.size(3), d.size(20), d.size(40), d.size(8, 2)
    hosts = d.normal(batch, steps, channels), d.normal(batch, taps - 1, channels), d.normal(channels, taps)
    found, after = op("conv_step", *hosts)
    return [*found, after[1]], reference.conv_step(*hosts)


def gated_delta(d):
    batch, steps, heads, repeat, width, inner = d.size(2), d.size(4), d.size(2), d.size(3), d.size(40), d.size(40)
    q, k = (d.normal(batch, steps, heads, width) / width for _ in range(2))
    v = d.normal(batch, steps, heads * repeat, inner)
    g, beta = (d.random.random((batch, steps, heads * repeat)).astype(FLOAT) for _ in range(2))
    hosts = q.astype(d.dtype), k.astype(d.dtype), v, g, beta, d.normal(batch, heads * repeat, inner, width, dtype=FLOAT)
    found, after = op("gated_delta", *hosts)
    return [*found, after[5]], reference.gated_delta(*hosts)


def gated_delta_gates(d):
    shape = (*d.lead(), d.size(40))
    hosts = d.normal(*shape), d.normal(*shape), d.normal(shape[-1], dtype=FLOAT), d.normal(shape[-1])
    return op("gated_delta_gates", *hosts)[0], reference.gated_delta_gates(*hosts)


def gdn_step(d):
    batch, heads, repeat, width, inner = d.size(3), d.size(2), d.size(3), 8 * d.size(8), 8 * d.size(8)
    all_heads, taps = heads * repeat, d.size(8, 2)
    channels = 2 * heads * width + all_heads * inner
    hosts = [d.normal(batch, channels + all_heads * (inner + 2)), d.normal(channels, taps)]
    hosts += [d.normal(batch, taps - 1, channels), d.normal(all_heads, dtype=FLOAT), d.normal(all_heads)]
    hosts += [d.normal(batch, all_heads, inner, width, dtype=FLOAT)]
    sizes = {"key_heads": heads, "value_heads": all_heads, "key_width": width, "value_width": inner}
    found, after = op("gdn_step", *hosts, **sizes)
    return [*found, after[2], after[5]], reference.gdn_step(*hosts, heads)


def gdn_inputs(d):
    batch, heads, repeat, width, inner = d.size(3), d.size(2), d.size(3), d.size(64), d.size(64)
    all_heads, taps = heads * repeat, d.size(8, 2)
    channels = 2 * heads * width + all_heads * inner
    hosts = [d.normal(batch, channels + 2 * all_heads + d.size(9)), d.normal(channels, taps)]
    hosts += [d.normal(batch, taps - 1, channels), d.normal(all_heads, dtype=FLOAT), d.normal(all_heads)]
    sizes = {"key_heads": heads, "value_heads": all_heads, "key_width": width, "value_width": inner}
    found, after = op("gdn_inputs", *hosts, **sizes)
    exact, state = reference.gdn_inputs(*hosts, tuple(sizes.values()))
    return [*found, after[2]], [*exact, state]


def moe_route(d):
    experts = d.size(100)
    return op("moe_route", x := d.normal(d.size(5), experts), k=(k := d.size(min(experts, 8))))[0], reference.moe_route(
        x, k
    )


def moe_combine(d):
    lead, k, width = d.lead(), d.size(9), d.size(100)
    hosts = d.normal(*lead, k, width), d.normal(*lead, k), d.normal(*lead, width), d.normal(*lead, 1)
    return one("moe_combine", reference.moe_combine, *hosts)


def quantized(d):
    width = 32 * d.size(6)
    bits = d.data.draw(st.sampled_from([2, 3, 4, 5, 6, 8]))
    return d.normal(d.size(9), width), {"group_size": 32, "bits": bits}


def quantize_and_back(d):
    w, form = quantized(d)
    stored, _ = op("quantize", w, **form)
    exact = quantize(w, 32, form["bits"])
    back, _ = op("dequantize", *stored, **form)
    return [*stored, *back], [*exact, dequantize(*exact, 32, form["bits"])]


def quantize_to_floating_codes(d):
    mode = d.data.draw(st.sampled_from(list(FLOATING)))
    w = d.normal(d.size(9), 32 * d.size(6))
    return op("quantize", w, mode=mode)[0], quantize_floating(w, mode)


def quantized_embedding(d):
    w, form = quantized(d)
    ids, stored = d.whole(len(w) + 1, d.size(20)), quantize(w, 32, form["bits"])
    exact = reference.quantized_embedding(ids, *stored, 32, form["bits"])
    return op("quantized_embedding", ids, *stored, **form)[0], [exact]


def sample(d):
    rows, width = d.size(3), d.size(300)
    hosts = d.normal(rows, width), d.random.random(rows).astype(FLOAT), d.whole(99, rows).astype(np.uint32)
    position = d.whole(99, rows)
    exact = [reference.sample(x, *(v.item() for v in row)) for x, *row in zip(*hosts, position)]
    return op("sample", *hosts, position)[0], [np.array(exact, INT)]


def repetition_penalty(d):
    size, capacity = d.size(300), d.size(40)
    logits, tokens, position = d.normal(size), d.whole(size + 2, capacity), d.whole(capacity, 1)
    window = d.size(50, 0)
    found, _ = op("repetition_penalty", logits, tokens, position, np.array([1.25], FLOAT), window=window)
    return found, [reference.repetition_penalty(logits, tokens, int(position[0]), 1.25, window)]


def filter_logits(d):
    logits = d.normal(d.size(300))
    k = d.size(20)
    found = kernels.filter_logits(hiprt.array(logits), top_k=hiprt.array(np.array([k], INT))).numpy()
    return [found], [np.where(reference.filter_logits(logits, k), logits, -np.inf)]


def where(d):
    shape = (*d.lead(), d.size(70))
    condition = d.random.random(shape) < 0.5
    return one("where", np.where, condition, d.normal(*shape), d.normal(shape[-1]))


def clip(d):
    shape = (*d.lead(), d.size(70))
    low = d.normal(*shape)
    return one("clip", np.clip, d.normal(*shape), low, low + low.dtype.type(1))


def concatenate(d):
    parts = [d.normal(3, d.size(70, 0), 2) for _ in range(d.size(4))]
    return [kernels.concatenate([*map(d.gaps, parts)], 1).numpy()], [np.concatenate(parts, 1)]


def logsumexp(d):
    shape = (*d.lead(), d.size(300))
    x = d.normal(*shape)
    return op("logsumexp", d.gaps(x), axis=-1)[0], [reference.logsumexp(x, axis=-1)]


def arange(d):
    start, stop, step = d.size(50, -50), d.size(5000, -50), d.size(9)
    return [kernels.arange(start, stop, step).numpy()], [np.arange(start, stop, step, dtype=INT)]


def advance(d):
    rows, capacity = d.size(70), d.size(9)
    step, tokens, sampled = d.whole(9, 4, rows), d.whole(99, rows, capacity), d.whole(99, rows)
    _, after = op("advance", step, tokens, sampled)
    for i in range(rows):
        reference.advance(step[:, i], tokens[i], int(sampled[i]))
    return after[:2], [step, tokens]


def astype(d):
    x = np.abs(d.normal(*d.lead(), d.size(70))) * d.dtype.type(9)
    to = np.dtype(d.data.draw(st.sampled_from([np.float16, hiprt.bfloat16, np.float32, np.int32, np.uint8])))
    return op("astype", d.gaps(x), dtype=to)[0], [x.astype(to)]


def contiguous(d):
    x = d.normal(*d.lead(), d.size(70))
    return op("contiguous", d.gaps(x))[0], [x]


def take(d):
    x, places = d.normal(d.size(4), d.size(9), d.size(5)), d.random.integers(0, 99, d.lead()).astype(INT)
    places %= x.shape[1]
    return op("take", d.gaps(x), d.gaps(places), axis=1)[0], [np.take(x, places, 1)]


def take_along_axis(d):
    x, places = d.normal(d.size(4), d.size(9), 3), d.random.integers(0, 99, (1, d.size(9), 3)).astype(INT)
    places = places.repeat(len(x), 0) % x.shape[1]
    return op("take_along_axis", d.gaps(x), d.gaps(places), axis=1)[0], [np.take_along_axis(x, places, 1)]


def put_along_axis(d):
    x = d.normal(d.size(4), d.size(9), 3)
    places = np.argsort(d.random.random(x.shape), 1)[:, : d.size(x.shape[1])].astype(INT)
    values, exact = d.normal(*places.shape), x.copy()
    np.put_along_axis(exact, places, values, 1)
    return op("put_along_axis", d.gaps(x), d.gaps(places), d.gaps(values), axis=1)[0], [exact]


def scatters(d):
    """Places that differ are written; where they are equal, values are added up."""
    x = d.normal(d.size(4), d.size(9), 3)
    places = d.random.permutation(x.shape[1])[: d.size(x.shape[1])].astype(INT)
    values, exact = d.normal(len(x), len(places), 3), x.copy()
    exact[:, places] = values
    found = op("scatter", d.gaps(x), d.gaps(places), d.gaps(values), axis=1)[0]
    again, total = places // 2, x.astype(np.float64)
    np.add.at(total, (slice(None), again), values.astype(np.float64))
    return found + op("scatter_add", d.gaps(x), d.gaps(again), d.gaps(values), axis=1)[0], [exact, total]


def slices(d):
    x, rows, width = d.normal(9, 9), d.size(9), d.size(9)
    first = d.random.integers(0, (10 - rows, 10 - width)).astype(INT)
    where_ = np.s_[first[0] : first[0] + rows, first[1] : first[1] + width]
    update, exact = d.normal(rows, width), x.copy()
    exact[where_] = update
    found = op("slice", d.gaps(x), first, axes=[0, 1], slice_size=(rows, width))[0]
    return found + op("slice_update", d.gaps(x), d.gaps(update), first, axes=[0, 1])[0], [x[where_], exact]


def orders(d):
    x, kth = d.normal(d.size(5), d.size(70)), 0
    order = np.argsort(x.astype(FLOAT), axis=-1, kind="stable").astype(np.uint32)
    ordered, k = np.take_along_axis(x, order, -1), d.size(x.shape[1])
    found = [op(name, d.gaps(x))[0][0] for name in ("argsort", "sort")]
    found += [op(name, d.gaps(x), kth=kth)[0][0] for name in ("argpartition", "partition")]
    found += op("topk", d.gaps(x), k=k)[0]
    return found, [order, ordered, order, ordered, ordered[:, x.shape[1] - k :]]


def places_of_extremes(d):
    x = d.normal(d.size(5), d.size(300))
    exact = [getattr(np, name)(x.astype(FLOAT), axis=-1) for name in ("argmax", "argmin")]
    return [op(name, d.gaps(x), axis=-1)[0][0] for name in ("argmax", "argmin")], exact


def cumsum(d):
    x = d.normal(d.size(5), d.size(70))
    return op("cumsum", d.gaps(x), axis=-1)[0], [np.cumsum(x.astype(np.float64), -1)]


OPS = {
    f.__name__: f
    for f in (
        silu_mul, rms_norm, layer_norm, gated_rms_norm, add_rms_norm, softmax, matmul, rope, kv_write, attention,
        quantized_attention,
        prefill_attention, conv_step, gated_delta, gated_delta_gates, gdn_inputs, gdn_step, moe_route,
        moe_combine, quantize_and_back, quantize_to_floating_codes, quantized_embedding, sample, repetition_penalty,
        filter_logits, where, clip, concatenate, logsumexp, arange, advance, astype, contiguous, take,
        take_along_axis, put_along_axis, scatters, slices, orders, places_of_extremes, cumsum,
    )
}  # fmt: skip


@pytest.mark.singles
@pytest.mark.parametrize("name", OPS)
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_shape(branch, name, data):
    """Whole numbers are equal; others within a rounding of the largest, and of the parts they are made of."""
    draw = Draw(data)
    for found, exact in zip(*OPS[name](draw), strict=True):
        assert found.shape == exact.shape
        if found.dtype.kind in "iu":
            np.testing.assert_array_equal(found, exact)
            continue
        unit = 4 * DTYPES[draw.dtype]
        largest = np.abs(exact[np.isfinite(exact)]).astype(np.float64).max(initial=1)
        np.testing.assert_allclose(found.astype(np.float64), exact.astype(np.float64), rtol=unit, atol=unit * largest)
