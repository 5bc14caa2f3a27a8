"""The prelude: attributes, simdgroups, barriers, 16-bit types, math, vectors and atomics of the dialect."""

import numpy as np
import pytest

import hiprt
from hiprt.kernels import Kernel

pytestmark = pytest.mark.usefixtures("branch")

ATTRIBUTES = {
    "thread_position_in_grid": "uint3",
    "threadgroup_position_in_grid": "uint3",
    "thread_position_in_threadgroup": "uint3",
    "threads_per_threadgroup": "uint3",
    "threadgroups_per_grid": "uint3",
    "threads_per_grid": "uint3",
    "thread_index_in_threadgroup": "uint",
    "thread_index_in_simdgroup": "uint",
    "simdgroup_index_in_threadgroup": "uint",
    "simdgroups_per_threadgroup": "uint",
    "threads_per_simdgroup": "uint",
}


def run(source, out, *, inputs=None, grid=(1, 1, 1), threadgroup=(1, 1, 1), headers=()):
    """Run a body that reads `inputs` (host arrays) and writes `out` (a host array of the result's shape and dtype)."""
    words = {"float32": "float", "float16": "half", "bfloat16": "bfloat16_t", "int32": "int", "uint32": "uint"}
    named = {name: np.asarray(value) for name, value in (inputs or {}).items()}
    kernel = Kernel(
        "probe",
        inputs={name: words[value.dtype.name] for name, value in named.items()},
        updates={"out": words[out.dtype.name]},
        source=source,
        threads=1024,
        is_varied=True,
        headers=headers,
    )
    result = hiprt.array(out)
    arrays = {name: hiprt.array(value) for name, value in named.items()}
    kernel(hiprt.current_stream(), grid, threadgroup, out=result, **arrays)
    return result.numpy()


def test_attributes():
    grid, group = (2, 3, 2), (5, 4, 3)
    threads, groups = 60, 12
    lines = []
    for name, kind in ATTRIBUTES.items():
        parts = [f"{name}.{axis}" for axis in "xyz"] if kind == "uint3" else [name]
        lines += [f"out[at++] = {part};" for part in parts]
    place = (
        "(threadgroup_position_in_grid.x + 2 * (threadgroup_position_in_grid.y + 3 * threadgroup_position_in_grid.z))"
    )
    source = f"uint at = ({place} * 60 + thread_index_in_threadgroup) * {len(lines)};\n" + "\n".join(lines)
    got = run(source, np.zeros((groups, threads, len(lines)), np.uint32), grid=grid, threadgroup=group)
    for g in range(groups):
        block = np.array([g % 2, g // 2 % 3, g // 6])
        for t in range(threads):
            thread = np.array([t % 5, t // 5 % 4, t // 20])
            exact = [*(block * group + thread), *block, *thread, *group, *grid, *np.multiply(grid, group)]
            assert got[g, t].tolist() == [*exact, t, t % 32, t // 32, 2, 32]


def test_simdgroup_reductions():
    x = np.random.default_rng(1).integers(-50, 50, 64).astype(np.int32)
    f = np.random.default_rng(2).normal(size=64).astype(np.float32)
    source = """
uint i = thread_index_in_threadgroup;
out[i] = float(simd_sum(x[i]));
out[64 + i] = float(simd_max(x[i]));
out[128 + i] = float(simd_min(x[i]));
out[192 + i] = simd_sum(f[i]);
out[256 + i] = simd_max(f[i]);
out[320 + i] = simd_product(1.0f + 0.01f * f[i]);
"""
    got = run(source, np.zeros((6, 2, 32), np.float32), inputs={"x": x, "f": f}, threadgroup=(64, 1, 1))
    pairs, floats = x.reshape(2, 32), f.reshape(2, 32)
    for row, exact in enumerate([pairs.sum(1), pairs.max(1), pairs.min(1), None, floats.max(1), None]):
        if exact is not None:
            np.testing.assert_array_equal(got[row], np.repeat(exact[:, None], 32, 1))
    np.testing.assert_allclose(got[3], np.repeat(floats.astype(np.float64).sum(1)[:, None], 32, 1), atol=1e-5)
    np.testing.assert_allclose(got[5], np.repeat((1 + 0.01 * floats).prod(1)[:, None], 32, 1), rtol=1e-5)
    # Every lane must hold the same bits, or threads of one group disagree.
    assert (got.view(np.uint32) == got.view(np.uint32)[:, :, :1]).all()


def test_simdgroup_shuffles(dtype):
    x = np.random.default_rng(3).normal(size=64).astype(dtype)
    source = """
uint i = thread_index_in_threadgroup;
uint lane = thread_index_in_simdgroup;
out[i] = simd_shuffle(x[i], (lane * 7 + 3) % 32);
out[64 + i] = simd_shuffle_xor(x[i], 13);
out[128 + i] = simd_shuffle_up(x[i], 5);
out[192 + i] = simd_shuffle_down(x[i], 9);
out[256 + i] = simd_broadcast(x[i], 30);
"""
    got = run(source, np.zeros((5, 2, 32), dtype), inputs={"x": x}, threadgroup=(64, 1, 1))
    lane, rows = np.arange(32), x.reshape(2, 32)
    up, down = np.where(lane < 5, lane, lane - 5), np.where(lane > 22, lane, lane + 9)
    for row, sources in enumerate([(lane * 7 + 3) % 32, lane ^ 13, up, down, np.full(32, 30)]):
        np.testing.assert_array_equal(got[row], rows[:, sources])


def test_threadgroup_memory_and_barrier():
    source = """
threadgroup int shared[100];
uint i = thread_index_in_threadgroup;
threadgroup int* mine = &shared[i];
*mine = x[threadgroup_position_in_grid.x * 100 + i];
threadgroup_barrier(mem_flags::mem_threadgroup);
out[threadgroup_position_in_grid.x * 100 + i] = shared[99 - i];
"""
    x = np.arange(300, dtype=np.int32)
    got = run(source, np.zeros(300, np.int32), inputs={"x": x}, grid=(3, 1, 1), threadgroup=(100, 1, 1))
    np.testing.assert_array_equal(got, x.reshape(3, 100)[:, ::-1].reshape(-1))


def test_simdgroup_barrier():
    source = """
threadgroup int shared[64];
uint i = thread_index_in_threadgroup;
shared[i] = int(i) * 2;
simdgroup_barrier(mem_flags::mem_threadgroup);
out[i] = shared[i ^ 31];
"""
    got = run(source, np.zeros(64, np.int32), threadgroup=(64, 1, 1))
    np.testing.assert_array_equal(got, (np.arange(64) ^ 31) * 2)


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), hiprt.bfloat16], ids=str)
def test_every_16_bit_number_as_float(dtype):
    x = np.arange(65536, dtype=np.uint16).view(dtype)
    got = run("uint i = thread_position_in_grid.x; out[i] = float(x[i]);", np.zeros(65536, np.float32),
              inputs={"x": x}, grid=(256, 1, 1), threadgroup=(256, 1, 1))  # fmt: skip
    np.testing.assert_array_equal(got, x.astype(np.float32))


def patterns():
    """Float32 numbers around every 16-bit one: random, ties, their neighbours, specials."""
    random = np.random.default_rng(4).integers(0, 2**32, 40000, dtype=np.uint32)
    upper = np.arange(0, 65536, 7, dtype=np.uint32) << 16
    ties = np.concatenate([upper | 0x7FFF, upper | 0x8000, upper | 0x8001])
    halves = (np.arange(0, 65536, 5, dtype=np.uint16).view(np.float16).astype(np.float32)).view(np.uint32)
    near = np.concatenate([halves + np.uint32(d) for d in (0xFFF, 0x1000, 0x1001)])
    return np.concatenate([random, ties, near]).view(np.float32)


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), hiprt.bfloat16], ids=str)
def test_rounding_to_16_bits(dtype):
    x = patterns()
    scalar = "uint i = thread_position_in_grid.x; if (i < SIZE) out[i] = OUT(x[i]);"
    source = scalar.replace("SIZE", str(x.size)).replace(
        "OUT", {"float16": "half", "bfloat16": "bfloat16_t"}[dtype.name]
    )
    got = run(source, np.zeros(x.size, dtype), inputs={"x": x}, grid=(-(-x.size // 256), 1, 1), threadgroup=(256, 1, 1))
    with np.errstate(over="ignore", invalid="ignore"):
        exact = x.astype(dtype)
    nan = np.isnan(x)
    np.testing.assert_array_equal(got[~nan].view(np.uint16), exact[~nan].view(np.uint16))
    assert np.isnan(got[nan].astype(np.float32)).all()


def test_bfloat16_arithmetic_rounds_each_result():
    a = np.random.default_rng(5).normal(size=500).astype(hiprt.bfloat16)
    b = np.random.default_rng(6).normal(size=500).astype(hiprt.bfloat16)
    source = """
uint i = thread_position_in_grid.x;
out[i] = a[i] + b[i];
out[500 + i] = a[i] * b[i];
out[1000 + i] = a[i] - b[i];
out[1500 + i] = a[i] / b[i];
bfloat16_t sum = a[i];
sum += b[i];
out[2000 + i] = sum;
out[2500 + i] = a[i] < b[i] ? a[i] : b[i];
out[3000 + i] = bfloat16_t(a[i] * 2.0f + 1);
"""
    got = run(source, np.zeros((7, 500), hiprt.bfloat16), inputs={"a": a, "b": b}, grid=(500, 1, 1))
    f, g = a.astype(np.float32), b.astype(np.float32)
    for row, exact in enumerate([f + g, f * g, f - g, f / g, f + g, np.minimum(f, g), f * 2 + 1]):
        np.testing.assert_array_equal(got[row], exact.astype(hiprt.bfloat16))


def ulps(got, exact):
    """Distance in units of the spacing of float32 around the exact value."""
    spacing = np.spacing(np.maximum(np.abs(exact), 2.0**-126).astype(np.float32)).astype(np.float64)
    return np.abs(got.astype(np.float64) - exact) / spacing


def apply(function, x):
    source = f"uint i = thread_position_in_grid.x; if (i < {x.size}) out[i] = {function};"
    return run(
        source, np.zeros(x.size, np.float32), inputs={"x": x}, grid=(-(-x.size // 256), 1, 1), threadgroup=(256, 1, 1)
    )


def test_exp_and_log():
    x = np.concatenate([np.linspace(-103, 88.7, 50001), np.linspace(-1, 1, 20001)]).astype(np.float32)
    assert ulps(apply("exp(x[i])", x), np.exp(x.astype(np.float64))).max() <= 2
    x = np.concatenate([np.geomspace(1e-45, 3e38, 50001), np.linspace(0.5, 2, 20001)]).astype(np.float32)
    exact = np.log(x.astype(np.float64))
    error = np.abs(apply("log(x[i])", x).astype(np.float64) - exact)
    assert (error <= 2.0**-23 * np.maximum(np.abs(exact), 2.0**-24) * 2).all()


def test_exp_and_log_of_specials():
    x = np.array([np.inf, -np.inf, np.nan, 0.0, 200.0, -200.0, 1.0], np.float32)
    np.testing.assert_array_equal(apply("exp(x[i])", x)[:6], np.float32([np.inf, 0, np.nan, 1, np.inf, 0]))
    got = apply("log(x[i])", x)
    np.testing.assert_array_equal(got[[0, 1, 2, 3, 5, 6]], np.float32([np.inf, np.nan, np.nan, -np.inf, np.nan, 0]))


@pytest.mark.parametrize(
    ("name", "exact", "low", "high"),
    [
        ("exp2", np.exp2, -20, 20),
        ("log2", np.log2, 0.01, 100),
        ("log10", np.log10, 0.01, 100),
        ("sqrt", np.sqrt, 0, 100),
        ("rsqrt", lambda x: 1 / np.sqrt(x), 0.01, 100),
        ("sin", np.sin, -3, 3),
        ("cos", np.cos, -3, 3),
        ("fabs", np.abs, -3, 3),
        ("floor", np.floor, -9, 9),
        ("ceil", np.ceil, -9, 9),
        ("rint", np.rint, -9, 9),
        ("trunc", np.trunc, -9, 9),
        ("metal::exp", np.exp, -5, 5),
        ("precise::log", np.log, 0.1, 9),
        ("metal::fast::exp", np.exp, -5, 5),
    ],
)
def test_math(name, exact, low, high):
    x = np.linspace(low, high, 999).astype(np.float32)
    np.testing.assert_allclose(apply(f"{name}(x[i])", x), exact(x.astype(np.float64)), rtol=5e-7, atol=2e-7)


def test_math_of_several_arguments():
    x = np.linspace(-3, 3, 101).astype(np.float32)
    wide = x.astype(np.float64)
    np.testing.assert_array_equal(
        apply("fma(x[i], x[i], -x[i] * 0.5f)", x), (wide * wide - wide * 0.5).astype(np.float32)
    )
    np.testing.assert_array_equal(apply("clamp(x[i], -1.0f, 2.0f)", x), np.clip(x, -1, 2))
    np.testing.assert_array_equal(
        apply("max(x[i], 0.5f) + min(x[i], -0.5f)", x), np.maximum(x, 0.5) + np.minimum(x, -0.5)
    )
    np.testing.assert_allclose(apply("pow(fabs(x[i]), 1.5f)", x), np.abs(wide) ** 1.5, rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(apply("select(x[i], -x[i], x[i] < 0.0f)", x), np.abs(x))
    np.testing.assert_array_equal(
        apply("isnan(x[i] / 0.0f) ? 7.0f : isinf(x[i] / 0.0f) ? 8.0f : 9.0f", x), np.where(x == 0, 7, 8)
    )


def test_products_and_sums_are_not_fused():
    # (1 + e)^2 - 1 with e = 2^-13: rounding the square drops e^2, a fused operation keeps it.
    x = np.full(64, 1 + 2.0**-13, np.float32)
    np.testing.assert_array_equal(apply("x[i] * x[i] - 1.0f", x), np.full(64, 2.0**-12, np.float32))
    np.testing.assert_array_equal(apply("fma(x[i], x[i], -1.0f)", x), np.full(64, 2.0**-12 + 2.0**-26, np.float32))


def test_vectors():
    source = """
using namespace metal;
uint3 a = uint3(1, 2, 3);
uint3 b = a * uint3(2) + uint3(10, 20, 30);
float4 f = float4(1.5f) - float4(0.5f, 1.0f, 1.5f, 2.0f);
uint2 u = uint2(9, 4) / uint2(2);
out[0] = float(b.x); out[1] = float(b.y); out[2] = float(b.z);
out[3] = f.x; out[4] = f.y; out[5] = f.z; out[6] = f.w;
out[7] = float(u.x * 10 + u.y);
out[8] = as_type<float>(0x40490fdbu);
thread float* pointer = &f.y;
out[9] = *pointer;
"""
    got = run(source, np.zeros(10, np.float32))
    assert got.tolist() == [12, 24, 36, 1.0, 0.5, 0.0, -0.5, 42, np.float32(np.pi), 0.5]


def test_atomics():
    source = """
device atomic_uint* counters = (device atomic_uint*)out;
uint i = thread_position_in_grid.x;
atomic_fetch_add_explicit(&counters[0], i, memory_order_relaxed);
atomic_fetch_max_explicit(&counters[1], i * 3, memory_order_relaxed);
atomic_fetch_min_explicit(&counters[2], 1000 - i, memory_order_relaxed);
if (i == 5) {
  uint before = atomic_exchange_explicit(&counters[3], 77u, memory_order_relaxed);
  atomic_store_explicit(&counters[4], before, memory_order_relaxed);
}
"""
    start = np.array([0, 0, 5000, 11, 0], np.uint32)
    got = run(source, start, grid=(10, 1, 1), threadgroup=(64, 1, 1))
    assert got.tolist() == [639 * 640 // 2, 639 * 3, 1000 - 639, 77, 11]
