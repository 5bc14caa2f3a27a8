"""Caches of 8 bits: codes against numpy, attention over them, what is not written, graphs, mistakes."""

import numpy as np
import pytest

import hiprt
from hiprt import kernels
from hiprt.graphs import Step
from hiprt.kernels.reference import ops as reference
from hiprt.kernels.tuning.target import force_generic

BASE, EPS = 1e4, 1e-6
ULP = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-21}
CODED = ("keys", "values", "key_scales", "value_scales")
WIDTHS = (64, 128, 256)


def caches_of(dtype, rows, pairs, capacity, width, seed=1):
    """Return the codes and scales of random keys and values, by name."""
    host = np.random.default_rng(seed).normal(size=(2, rows, pairs, capacity, width)).astype(dtype)
    (keys, key_scales), (values, value_scales) = map(reference.codes_of, host)
    return dict(zip(CODED, (keys, values, key_scales, value_scales)))


def rows_of(dtype, heads, pairs, width, positions, seed=0):
    """Return qkv, two norms and the positions."""
    random = np.random.default_rng(seed)
    qkv = random.normal(size=(len(positions), (heads + 2 * pairs) * width + 24)).astype(dtype)
    return qkv, *random.normal(size=(2, width)).astype(dtype), np.array(positions, np.int32)


def on_device(hosts):
    return {name: hiprt.array(host) for name, host in hosts.items()}


def held(caches, name):
    """Return what a cache stands for, in float64."""
    return reference.dequantize_cache(caches[name].numpy(), caches[f"{name[:-1]}_scales"].numpy())


@pytest.mark.parametrize(("heads", "pairs", "width", "dims"), [(4, 2, 64, None), (3, 1, 128, 32), (2, 2, 256, 0)])
def test_what_is_written_is_off_by_half_a_scale(branch, dtype, heads, pairs, width, dims):
    """The queries and the numbers behind the codes are those of `norm_rope_write`, bit by bit."""
    capacity, positions = 20, [3, 0, 19]
    hosts = rows_of(dtype, heads, pairs, width, positions)
    given, options = [hiprt.array(host) for host in hosts], {"heads": heads, "base": BASE, "eps": EPS, "dims": dims}
    coded = on_device(caches_of(dtype, 3, pairs, capacity, width))
    before = {name: cache.numpy() for name, cache in coded.items()}
    plain = [hiprt.zeros((3, pairs, capacity, width), dtype) for _ in range(2)]
    queries = kernels.norm_rope_quantize(*given, *coded.values(), **options)
    np.testing.assert_array_equal(queries.numpy(), kernels.norm_rope_write(*given, *plain, **options).numpy())
    for name, cache in zip(("keys", "values"), plain):
        found, scales = held(coded, name), coded[f"{name[:-1]}_scales"].numpy()
        codes, exact_scales = reference.codes_of(cache.numpy())
        for row, place in enumerate(positions):
            np.testing.assert_array_equal(scales[row, :, place], exact_scales[row, :, place])
            distance = np.abs(coded[name].numpy()[row, :, place].astype(int) - codes[row, :, place])
            assert distance.max() <= 1  # of two codes that are as near
            half = np.repeat(scales[row, :, place].astype(np.float64), 64, -1) / 2
            wanted = cache.numpy()[row, :, place].astype(np.float64)
            assert (np.abs(found[row, :, place] - wanted) <= half * (1 + 2.0**-16)).all()
            others = np.arange(capacity) != place
            for part in (name, f"{name[:-1]}_scales"):
                np.testing.assert_array_equal(coded[part].numpy()[row, :, others], before[part][row, :, others])


def test_against_the_reference(branch, dtype):
    """The bound is half a scale, and what rounding to the dtype makes of the exact keys."""
    hosts, coded = rows_of(dtype, 4, 2, 128, [7, 2]), caches_of(dtype, 2, 2, 9, 128)
    exact = reference.norm_rope_quantize(*hosts, *coded.values(), 4, BASE, EPS)
    made = on_device(coded)
    queries = kernels.norm_rope_quantize(*map(hiprt.array, hosts), *made.values(), heads=4, base=BASE, eps=EPS)
    found = queries.numpy().astype(np.float64), held(made, "keys"), held(made, "values")
    scales = [0, *(np.repeat(made[name].numpy().astype(np.float64), 64, -1) for name in CODED[2:])]
    for got, wanted, scale in zip(found, exact, scales, strict=True):
        assert (np.abs(got - wanted) <= scale / 2 + 2 * ULP[dtype.name] * max(1.0, np.abs(wanted).max())).all()


def test_values_that_codes_hold_exactly_come_back(branch, dtype):
    """Whole numbers up to 127, zeros, groups that are all zero, and ones too small for a scale."""
    width = 128
    row = np.zeros((1, 3 * width), dtype)
    row[0, width : width + 64] = np.arange(-63, 64, 2)
    row[0, width] = 127
    row[0, 2 * width :] = [0.0] * 64 + [1e-38] * 64
    coded = {name: hiprt.zeros((1, 1, 4, width), np.int8) for name in CODED[:2]}
    coded |= {name: hiprt.zeros((1, 1, 4, 2)) for name in CODED[2:]}
    at = hiprt.array(np.array([2], np.int32))
    kernels.norm_rope_quantize(hiprt.array(row), None, None, at, *coded.values(), heads=1, base=BASE, dims=0)
    np.testing.assert_array_equal(held(coded, "keys")[0, 0, 2], row[0, width : 2 * width].astype(np.float64))
    assert not held(coded, "values").any()


@pytest.mark.parametrize("capacity", [40, 700])
@pytest.mark.parametrize(("heads", "pairs", "width"), [(4, 2, 64), (3, 3, 128), (8, 2, 256)])
def test_attention(branch, dtype, close, heads, pairs, width, capacity):
    """Against float64; long caches are shared out among threadgroups, and only what codes stand for is rounded."""
    positions = np.array([0, capacity - 1, capacity + 5, capacity // 2], np.int32)
    q = np.random.default_rng(2).normal(size=(4, heads, width)).astype(dtype)
    gate = np.random.default_rng(3).normal(size=(4, heads * width)).astype(dtype)
    coded = caches_of(dtype, 4, pairs, capacity, width)
    scale = width**-0.5
    each = [
        reference.quantized_attention(q[i], *(coded[name][i] for name in CODED), int(positions[i]), scale)
        for i in range(4)
    ]
    opened = np.stack(each) / (1.0 + np.exp(-gate.astype(np.float64)).reshape(q.shape))
    given = hiprt.array(q), *on_device(coded).values(), hiprt.array(positions)
    close(kernels.quantized_attention(*given, scale=scale), np.stack(each), magnitude=4.0, steps=16)
    close(kernels.quantized_attention(*given, scale=scale, gate=hiprt.array(gate)), opened, magnitude=4.0, steps=16)


@pytest.mark.parametrize("position", [0, 63, 64, 300, 1499])
def test_positions_are_shared_out(dtype, close, position):
    q = np.random.default_rng(2).normal(size=(8, 128)).astype(dtype)
    coded = {name: cache[0] for name, cache in caches_of(dtype, 1, 2, 1500, 128).items()}
    exact = reference.quantized_attention(q, *coded.values(), position, 0.1)
    with force_generic():
        at = hiprt.array(np.array([position], np.int32))
        found = kernels.quantized_attention(hiprt.array(q), *on_device(coded).values(), at, scale=0.1)
    close(found, exact, magnitude=4.0, steps=16)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_cache_as_numbers(branch, dtype, width):
    """Each product is rounded once; behind the position nothing is written."""
    coded = caches_of(dtype, 1, 3, 10, width)
    codes, scales = coded["keys"][0], coded["key_scales"][0]
    out = hiprt.full((3, 10, width), 9.0, dtype)
    at = hiprt.array(np.array([6], np.int32))
    kernels.dequantize_cache(hiprt.array(codes), hiprt.array(scales), at, dtype, out=out)
    exact = (codes.astype(np.float32) * np.repeat(scales, 64, -1)).astype(dtype)
    np.testing.assert_array_equal(out.numpy()[:, :7], exact[:, :7])
    assert (out.numpy()[:, 7:] == 9).all()


def test_graph_equals_eager(branch, dtype):
    hosts, coded = rows_of(dtype, 8, 2, 64, [599, 130]), caches_of(dtype, 2, 2, 600, 64)

    def work(given, caches):
        query = kernels.norm_rope_quantize(*given, *caches.values(), heads=8, base=BASE, eps=EPS)
        return kernels.quantized_attention(query, *caches.values(), given[3], scale=0.125)

    given, alone, kept = [hiprt.array(host) for host in hosts], on_device(coded), on_device(coded)
    eager, step = work(given, alone).numpy(), Step(lambda: work(given, kept))
    for _ in range(4):
        np.testing.assert_array_equal(step().numpy(), eager)
    for name in CODED:
        np.testing.assert_array_equal(kept[name].numpy(), alone[name].numpy())


def test_positions_outside_write_nothing(branch, dtype):
    coded = caches_of(dtype, 3, 1, 5, 64)
    made = on_device(coded)
    hosts = rows_of(dtype, 2, 1, 64, [5, -1, 2**31 - 1])
    kernels.norm_rope_quantize(*map(hiprt.array, hosts), *made.values(), heads=2, base=BASE)
    for name in CODED:
        np.testing.assert_array_equal(made[name].numpy(), coded[name])


def test_mistakes_are_named(int32):
    half = np.dtype(np.float16)
    q, at = hiprt.zeros((2, 64), half), int32(0)
    codes, scales = hiprt.zeros((1, 4, 64), np.int8), hiprt.zeros((1, 4, 1))
    row = hiprt.zeros((1, 4 * 64), half)

    def attend(keys=codes, values=codes, key_scales=scales, value_scales=scales):
        kernels.quantized_attention(q, keys, values, key_scales, value_scales, at, scale=1.0)

    def write(keys=codes, key_scales=scales):
        kernels.norm_rope_quantize(row, None, None, at, keys, codes, key_scales, scales, heads=2, base=1.0)

    narrow, wrong, more = hiprt.zeros((1, 4, 96), np.int8), hiprt.zeros((1, 4, 1), half), hiprt.zeros((1, 4, 2))
    for error, message, call in [
        (TypeError, "keys is float16; int8", lambda: attend(keys=hiprt.zeros((1, 4, 64), half))),
        (TypeError, "values' scales is float16; float32", lambda: attend(value_scales=wrong)),
        (ValueError, r"keys' scales has shape \(1, 4, 2\); \(1, 4, 1\)", lambda: attend(key_scales=more)),
        (ValueError, "heads of 96 elements in values; 64, 128 or 256", lambda: attend(values=narrow)),
        (ValueError, "heads of 96 elements in keys", lambda: write(keys=narrow)),
        (TypeError, "keys' scales is float16", lambda: write(key_scales=wrong)),
        (TypeError, "the result cannot be int32", lambda: kernels.dequantize_cache(codes, scales, at, np.int32)),
        (ValueError, "position has shape", lambda: kernels.dequantize_cache(codes, scales, hiprt.zeros(2, np.int32))),
    ]:
        with pytest.raises(error, match=message):
            call()
