"""half and bfloat16 on the device, against numpy and ml_dtypes."""

import ml_dtypes
import numpy as np
import pytest
from helpers.rtc import Program, evaluate

BF16 = ml_dtypes.bfloat16
FP16 = "#include <hip/hip_fp16.h>\n#define H(u) __ushort_as_half(u)\n#define U(h) __half_as_ushort(h)\n"
BF = "#include <hip/hip_bf16.h>\n#define H(u) __ushort_as_bfloat16(u)\n#define U(h) __bfloat16_as_ushort(h)\n"
KINDS = pytest.mark.parametrize(("prologue", "dtype"), [(FP16, np.float16), (BF, BF16)], ids=["half", "bfloat16"])
ALL = np.arange(65536, dtype=np.uint16)
RNG = np.random.default_rng(11)


@pytest.fixture(autouse=True)
def no_numpy_warnings():
    """Values that are not finite are part of every test here."""
    with np.errstate(all="ignore"):
        yield


def same(got, want, dtype):
    """Compare bit by bit, but take all not-a-numbers for the same."""
    got, want = got.view(dtype).astype(np.float32), want.astype(dtype).astype(np.float32)
    np.testing.assert_array_equal(got, want)
    number = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(want[number]))


def pairs(dtype, n=40000):
    """Return random values of all magnitudes, and some special ones."""
    bits = RNG.integers(0, 65536, (2, n)).astype(np.uint16)
    near = (RNG.normal(size=(2, n)) * 3).astype(dtype).view(np.uint16)
    return np.concatenate([bits, near], axis=1)


@KINDS
def test_every_value_to_float(prologue, dtype):
    want = ALL.view(dtype).astype(np.float32)
    np.testing.assert_array_equal(evaluate("float(H(x))", ALL, out=np.float32, prologue=prologue), want)


@KINDS
def test_float_to_nearest_even(prologue, dtype):
    exact = ALL.view(dtype).astype(np.float32)
    exact = exact[np.isfinite(exact)]
    between = (np.sort(exact)[:-1].astype(np.float64) + np.sort(exact)[1:]) / 2
    x = np.concatenate(
        [exact, between, between * (1 + 1e-7), RNG.normal(size=20000), [np.inf, -np.inf, np.nan, 1e38, -1e38, 70000]]
    )
    x = x.astype(np.float32)
    conversion = "__float2half(x)" if dtype == np.float16 else "__float2bfloat16(x)"
    same(evaluate(f"U({conversion})", x, out=np.uint16, prologue=prologue), x.astype(dtype), dtype)


def test_float_to_half_by_rounding_mode():
    x = np.concatenate(
        [RNG.normal(size=5000), RNG.normal(size=2000) * 1e-6, [0, 65504, 65519, 65520, 1e6, -1e6, 1e-9, -1e-9]]
    )
    x = x.astype(np.float32)
    near = x.astype(np.float16)
    up = np.where(near.astype(np.float32) < x, np.nextafter(near, np.float16(np.inf)), near)
    down = np.where(near.astype(np.float32) > x, np.nextafter(near, np.float16(-np.inf)), near)
    for mode, want in (("ru", up), ("rd", down), ("rz", np.where(x > 0, down, up)), ("rn", near)):
        got = evaluate(f"U(__float2half_{mode}(x))", x, out=np.uint16, prologue=FP16).view(np.float16)
        np.testing.assert_array_equal(got, want, mode)


def test_whole_numbers_to_half_by_rounding_mode():
    special = [0, 65504, 65519, 65520, 2**31 - 1, -(2**31)]
    x = np.concatenate([RNG.integers(-70000, 70000, 3000), special]).astype(np.int32)
    exact = x.astype(np.float64)
    near = x.astype(np.float16)
    up = np.where(near.astype(np.float64) < exact, np.nextafter(near, np.float16(np.inf)), near)
    down = np.where(near.astype(np.float64) > exact, np.nextafter(near, np.float16(-np.inf)), near)
    for mode, want in (("ru", up), ("rd", down), ("rz", np.where(x > 0, down, up)), ("rn", near)):
        got = evaluate(f"U(__int2half_{mode}(x))", x, out=np.uint16, prologue=FP16).view(np.float16)
        np.testing.assert_array_equal(got, want, mode)


def test_pairs_compare_as_both_of_their_halves():
    """<= and >= are what > and < are not, as in HIP."""
    body = """
  const __half2 a(x, y), b(y, z);
  const __half2 unordered = __hltu2(a, b);
  out[i] = (a < b) + 2 * (a <= b) + 4 * (a > b) + 8 * (a >= b) + 16 * (a == b) + 32 * __hbltu2(a, b)
    + 64 * int(float(unordered.x)) + 128 * __hbequ2(a, b);  (void)0"""
    x, y, z = (np.array(v, np.float32) for v in ([1, 2, 1, np.nan, 3, 1], [2, 2, 1, 1, 2, 3], [3, 1, 1, 4, 1, 2]))
    got = evaluate(f"0; {body}", x, y, z, out=np.int32, prologue="#include <hip/hip_fp16.h>\n")
    both = lambda holds: holds(x, y) & holds(y, z)  # noqa: E731
    want = both(np.less) + 2 * ~both(np.greater) + 4 * both(np.greater) + 8 * ~both(np.less)
    want += (
        16 * both(np.equal)
        + 32 * both(lambda p, q: ~(p >= q))
        + 64 * ~(x >= y)
        + 128 * both(lambda p, q: ~((p < q) | (p > q)))
    )
    np.testing.assert_array_equal(got, want)


def test_saturation_and_the_mixed_dot():
    x = np.array([-2, 0.25, 0.5, 3], np.float32)
    prologue = "#include <hip/hip_fp16.h>\n"
    np.testing.assert_array_equal(evaluate("float(__clamp_01(__half(x)))", x, prologue=prologue), np.clip(x, 0, 1))
    two = "__hfma2_sat(__half2(x), __half2(2.0f), __half2(0.25f))"
    np.testing.assert_array_equal(evaluate(f"__high2float({two})", x, prologue=prologue), np.clip(2 * x + 0.25, 0, 1))
    dot = "amd_mixed_dot(__half2(x, 2), __half2(3, 4), 1.5f, {})"
    np.testing.assert_array_equal(evaluate(dot.format("false"), x, prologue=prologue), 3 * x + 9.5)
    np.testing.assert_array_equal(evaluate(dot.format("true"), x, prologue=prologue), np.clip(3 * x + 9.5, 0, 1))


def test_double_to_half_rounds_once():
    halves = ALL.view(np.float16)
    halves = np.sort(halves[np.isfinite(halves)]).astype(np.float64)
    middle = (halves[:-1] + halves[1:]) / 2
    x = np.concatenate([middle, middle * (1 + 1e-12), middle * (1 - 1e-12), [np.nan, np.inf, 1e300, 1e-300]])
    same(evaluate("U(__double2half(x))", x, out=np.uint16, prologue=FP16), x.astype(np.float16), np.float16)


@KINDS
@pytest.mark.parametrize(("operator", "name"), [("+", "__hadd"), ("-", "__hsub"), ("*", "__hmul"), ("/", "__hdiv")])
def test_arithmetic(prologue, dtype, operator, name):
    x, y = pairs(dtype)
    a, b = x.view(dtype).astype(np.float64), y.view(dtype).astype(np.float64)
    want = {"+": a + b, "-": a - b, "*": a * b, "/": a / b}[operator].astype(np.float32).astype(dtype)
    same(evaluate(f"U({name}(H(x), H(y)))", x, y, prologue=prologue), want, dtype)
    same(evaluate(f"U(H(x) {operator} H(y))", x, y, prologue=prologue), want, dtype)


def test_fused_multiply_add_of_halves_rounds_once():
    x, y = pairs(np.float16)
    z = np.roll(x, 1)
    # The sum of an exact product and a half, rounded to odd at double precision, then once to half.
    a, b, c = (v.view(np.float16).astype(np.longdouble) for v in (x, y, z))
    total = a * b + c
    near = total.astype(np.float64)
    cut = (near != total) & np.isfinite(near)
    bits = near.view(np.int64) - (cut & (np.abs(near.astype(np.longdouble)) > np.abs(total)))
    want = np.where(cut, (bits | 1).view(np.float64), near).astype(np.float16)
    same(evaluate("U(__hfma(H(x), H(y), H(z)))", x, y, z, prologue=FP16), want, np.float16)


@KINDS
def test_comparisons(prologue, dtype):
    x, y = pairs(dtype, 3000)
    y[::3] = x[::3]
    a, b = x.view(dtype).astype(np.float32), y.view(dtype).astype(np.float32)
    tests = {"heq": a == b, "hne": a != b, "hlt": a < b, "hle": a <= b, "hgt": a > b, "hge": a >= b}
    expression = " | ".join(f"__{name}(H(x), H(y)) << {i}" for i, name in enumerate(tests))
    want = sum(v.astype(np.uint16) << i for i, v in enumerate(tests.values()))
    np.testing.assert_array_equal(evaluate(expression, x, y, prologue=prologue), want)


@KINDS
def test_minimum_maximum_and_signs(prologue, dtype):
    x, y = pairs(dtype, 3000)
    a, b = x.view(dtype).astype(np.float32), y.view(dtype).astype(np.float32)
    same(evaluate("U(__hmax(H(x), H(y)))", x, y, prologue=prologue), np.fmax(a, b).astype(dtype), dtype)
    same(evaluate("U(__hmin(H(x), H(y)))", x, y, prologue=prologue), np.fmin(a, b).astype(dtype), dtype)
    np.testing.assert_array_equal(evaluate("U(__hneg(H(x)))", x, prologue=prologue), x ^ 0x8000)
    np.testing.assert_array_equal(evaluate("U(__habs(H(x)))", x, prologue=prologue), x & 0x7FFF)


@KINDS
@pytest.mark.parametrize("name", ["sqrt", "exp", "log", "sin", "floor", "rint", "rcp"])
def test_functions_over_all_values(prologue, dtype, name):
    a = ALL.view(dtype).astype(np.float32).astype(np.float64)
    want = {"rcp": lambda v: 1 / v}.get(name, getattr(np, name, None))(a).astype(np.float32)
    got = evaluate(f"float(h{name}(H(x)))", ALL, out=np.float32, prologue=prologue)
    bound = 0.002 if dtype == np.float16 else 0.01
    np.testing.assert_allclose(got, want.astype(dtype).astype(np.float32), rtol=bound, atol=1e-7)


@KINDS
def test_packed_pairs(prologue, dtype):
    pair, make = ("__half2", "__halves2half2") if dtype == np.float16 else ("__hip_bfloat162", "__halves2bfloat162")
    body = f"""
  {pair} a = {make}(H(x), H(y)), r = __hfma2(a, a, a);
  r = __hadd2(__hmul2(r, a), __hneg2(a));
  out[i] = float(__low2float(r)) + 1000.0f * __high2float(r);  (void)0"""
    x = np.array([1, 2, -3, 0.5], dtype).view(np.uint16)
    y = np.array([0.25, 4, 1, -2], dtype).view(np.uint16)
    got = evaluate(f"0; {body}", x, y, out=np.float32, prologue=prologue)
    r = [(v * v + v) * v - v for v in (x.view(dtype).astype(np.float32), y.view(dtype).astype(np.float32))]
    np.testing.assert_array_equal(got, r[0] + 1000 * r[1])


def test_pairs_of_halves_as_numbers_of_the_language():
    """A pair's x, y and data are the same bytes; data computes as HIP's vector does, and raw pairs are made of both."""
    body = """
  __half2 a(x, y), b;
  b.data.x = a.data.y + _Float16(1);
  b.data[1] = _Float16(float(a.x) * 2.0f);
  const __half2_raw raw = a;
  const __half2 c = raw, d = a.data * b.data - -raw.data, e = _Float16_2{1, 2};
  out[4 * i] = b.x; out[4 * i + 1] = float(c.y) * 64 + float(e.y) + float(raw.y.data);
  out[4 * i + 2] = d.x; out[4 * i + 3] = d.y;  (void)0"""
    x, y = np.array([1, -2, 0.5, 3], np.float32), np.array([4, 8, -16, 0.25], np.float32)
    source = f"""#include <hip/hip_fp16.h>
extern "C" __global__ void k(const float* px, const float* py, float* out) {{
  const int i = threadIdx.x;
  const float x = px[i], y = py[i];
  {body};
}}"""
    out = np.zeros((4, 4), np.float32)
    Program(source).run("k", 1, 4, x, y, out)
    np.testing.assert_array_equal(out, np.stack([y + 1, 65 * y + 2, x * (y + 1) + x, y * 2 * x + y], axis=1))


def test_pairs_of_bfloat16_compare_and_convert():
    body = """
  const __hip_bfloat162 a = __floats2bfloat162_rn(x, y), b = __floats2bfloat162_rn(y, z);
  const __hip_bfloat162_raw raw = __hmax2(a, b);
  const __hip_bfloat162 most(raw), crossed = __highs2bfloat162(a, __lows2bfloat162(b, a));
  const float2 less = __hlt2(a, b), unordered = __hltu2(a, b), high = crossed, nan = __hisnan2(most);
  out[i] = less.x + 2 * less.y + 4 * unordered.x + 8 * __hbltu2(a, b) + 16 * (a < b) + 32 * (a == b) + 64 * (a != b)
    + 128 * (float(most.x) == float(__hmax(a.x, b.x))) + 256 * (high.x == float(a.y) || isnan(y))
    + 512 * (high.y == float(a.x) || isnan(x)) + 1024 * (nan.x == 0.0f)
    + 2048 * (float(HIPRT_ONE_BF16) + float(HIPRT_NEG_ZERO_BF16) == 1.0f)
    + 4096 * isinf(float(HIPRT_INF_BF16));  (void)0"""
    x, y, z = (np.array(v, np.float32) for v in ([1, 2, 1, np.nan, 3, 1], [2, 2, 1, 1, 2, 3], [3, 1, 1, 4, 1, 2]))
    got = evaluate(f"0; {body}", x, y, z, out=np.int32, prologue="#include <hip/hip_bf16.h>\n")
    first, second = x < y, y < z
    want = first + 2 * second + 4 * ~(x >= y) + 8 * (~(x >= y) & ~(y >= z)) + 16 * (first & second)
    want += 32 * ((x == y) & (y == z)) + 64 * ~((x == y) & (y == z)) + 8064
    np.testing.assert_array_equal(got, want)


def test_the_older_bfloat16_type():
    prologue = "#include <hip/hip_bfloat16.h>\n"
    x = RNG.normal(size=1000).astype(np.float32)
    same(
        evaluate("(hip_bfloat16(x) + hip_bfloat16(1.0f)).data", x, out=np.uint16, prologue=prologue),
        (x.astype(BF16).astype(np.float32) + 1).astype(BF16),
        BF16,
    )
    got = evaluate("hip_bfloat16(x, hip_bfloat16::truncate).data", x, out=np.uint16, prologue=prologue)
    np.testing.assert_array_equal(got, x.view(np.uint32) >> 16)


def test_the_languages_own_half_type():
    x = RNG.normal(size=1000).astype(np.float32)
    got = evaluate("0; _Float16 h = x; h = h * (_Float16)2.0f; out[i] = (float)h", x)
    np.testing.assert_array_equal(got, (x.astype(np.float16) * 2).astype(np.float32))


def test_headers_are_not_changed_by_the_programs_macros():
    source = """#include <hip/hip_fp16.h>
extern "C" __global__ void k(T* p) { p[threadIdx.x] = __hadd(p[threadIdx.x], T(N)); }"""
    values = np.arange(8).astype(np.float16)
    Program(source, options=["-DT=__half", "-DN=4", "-Da=1", "-Dv=1", "-Dbits=1"]).run("k", 1, 8, values)
    np.testing.assert_array_equal(values, np.arange(8) + 4)
