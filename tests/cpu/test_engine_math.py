"""Device math: accuracy against double precision, special cases, integer intrinsics, conversions, vector types."""

import math

import numpy as np
import pytest
from helpers.rtc import Program, evaluate

RNG = np.random.default_rng(7)
N = 4000
SPECIAL = np.array(
    [0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, -3, 1e-40, -1e-40, 1e-20, 100, -200, 3e38, -3e38, np.inf, -np.inf, np.nan],
    np.float32,
)


def ulps(got, want):
    """Return the largest error in units in the last place; values that are not finite must be the same."""
    rounded = want.astype(np.float32)
    finite = np.isfinite(rounded)
    np.testing.assert_array_equal(got[~finite], rounded[~finite])
    return (np.abs(got[finite].astype(np.float64) - want[finite]) / np.spacing(np.abs(rounded[finite]))).max()


def spread(low, high):
    return RNG.uniform(low, high, N)


def scales(size):
    """Return numbers of all magnitudes up to about a size."""
    return np.concatenate([RNG.normal(size=N) * size, RNG.normal(size=N) * 10.0 ** RNG.uniform(-30, 0, N)])


POSITIVE = np.exp(spread(-90, 88))
ACCURACY = {
    "expf": (math.exp, np.concatenate([spread(-103, 88.7), scales(1)]), 1),
    "__expf": (math.exp, spread(-80, 80), 1),
    "exp2f": (lambda x: 2.0**x, spread(-148, 127.9), 1),
    "exp10f": (lambda x: 10.0**x, spread(-44, 38.4), 0.51),
    "expm1f": (math.expm1, scales(5), 0.51),
    "logf": (math.log, np.concatenate([POSITIVE, spread(0.9, 1.1)]), 0.51),
    "log2f": (math.log2, np.concatenate([POSITIVE, spread(0.9, 1.1)]), 0.51),
    "log10f": (math.log10, np.concatenate([POSITIVE, spread(0.9, 1.1)]), 0.51),
    "log1pf": (math.log1p, np.abs(scales(50)), 0.51),
    "sinf": (
        math.sin,
        np.concatenate([scales(10), spread(-1e5, 1e5), spread(-1e30, 1e30), np.arange(1, N) * (math.pi / 2)]),
        0.51,
    ),
    "cosf": (
        math.cos,
        np.concatenate([scales(10), spread(-1e5, 1e5), spread(-1e30, 1e30), np.arange(1, N) * (math.pi / 2)]),
        0.51,
    ),
    "tanf": (math.tan, scales(100), 0.51),
    "__sinf": (math.sin, spread(-1e5, 1e5), 0.51),
    "sinpif": (lambda x: math.sin(math.pi * (x - 2 * round(x / 2))), spread(-100, 100), 0.52),
    "tanhf": (math.tanh, scales(3), 0.51),
    "sinhf": (math.sinh, scales(20), 0.51),
    "coshf": (math.cosh, scales(20), 0.51),
    "asinf": (math.asin, spread(-1, 1), 0.51),
    "atanf": (math.atan, scales(10), 0.51),
    "erff": (math.erf, scales(2), 0.51),
    "erfcf": (math.erfc, spread(-4, 9), 0.51),
    "tgammaf": (math.gamma, spread(0.1, 30), 0.51),
    "sqrtf": (math.sqrt, POSITIVE, 0.5),
    "rsqrtf": (lambda x: 1 / math.sqrt(x), POSITIVE, 0.51),
    "cbrtf": (lambda x: math.copysign(abs(x) ** (1 / 3), x), scales(100), 0.51),
}


@pytest.mark.every(2)
@pytest.mark.parametrize("name", ACCURACY)
def test_accuracy(name):
    function, values, bound = ACCURACY[name]
    x = values.astype(np.float32)
    want = np.array([function(v) for v in x.astype(np.float64)])
    normal = (np.abs(want) >= np.finfo(np.float32).tiny) | (want == 0)
    assert ulps(evaluate(f"{name}(x)", x)[normal], want[normal]) <= bound


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("expf", np.exp),
        ("exp2f", np.exp2),
        ("logf", np.log),
        ("log1pf", np.log1p),
        ("expm1f", np.expm1),
        ("sqrtf", np.sqrt),
        ("sinf", np.sin),
        ("cosf", np.cos),
        ("tanhf", np.tanh),
        ("sinhf", np.sinh),
        ("coshf", np.cosh),
        ("floorf", np.floor),
        ("ceilf", np.ceil),
        ("truncf", np.trunc),
        ("rintf", np.rint),
        ("fabsf", np.abs),
    ],
)
def test_special_values(name, function):
    with np.errstate(all="ignore"):
        want = function(SPECIAL.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(evaluate(f"{name}(x)", SPECIAL), want, rtol=3e-7, atol=1e-45)


def test_the_sign_of_zero():
    zero = np.array([0.0, -0.0], np.float32)
    for name in ("sinf", "tanhf", "tanf", "floorf", "roundf", "truncf", "sqrtf", "erff", "expm1f", "log1pf", "sinhf"):
        np.testing.assert_array_equal(np.signbit(evaluate(f"{name}(x)", zero)), [False, True], name)


def test_expf_over_subnormal_results():
    x = np.linspace(-104, -87, 2000).astype(np.float32)
    want = np.exp(x.astype(np.float64))
    assert (np.abs(evaluate("expf(x)", x) - want) <= 1.5e-45).all()


def test_powf_everywhere():
    x, y = np.exp(spread(-20, 20)).astype(np.float32), (RNG.normal(size=N) * 4).astype(np.float32)
    want = x.astype(np.float64) ** y.astype(np.float64)
    got = evaluate("powf(x, y)", x, y)
    sound = (want > 1e-37) & (want < 3e38)
    assert ulps(got[sound], want[sound]) <= 0.51
    bases, exponents = (
        a.ravel() for a in np.meshgrid(SPECIAL, np.append(SPECIAL, [16777217, 5, -5]).astype(np.float32))
    )
    with np.errstate(all="ignore"):
        want = np.power(bases.astype(np.float64), exponents.astype(np.float64)).astype(np.float32)
    got = evaluate("powf(x, y)", bases, exponents)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-44)
    number = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(want[number]))


def test_roundf_goes_away_from_zero():
    x = np.array([0.5, 1.5, 2.5, -0.5, -2.5, 0.49999997, 8388609, -8388609, 1e30], np.float32)
    np.testing.assert_array_equal(
        evaluate("roundf(x)", x), np.array([1, 2, 3, -1, -3, 0, 8388609, -8388609, 1e30], np.float32)
    )


def test_min_and_max_prefer_numbers():
    x, y = (a.ravel() for a in np.meshgrid(SPECIAL, SPECIAL))
    np.testing.assert_array_equal(evaluate("fminf(x, y)", x, y), np.fmin(x, y))
    np.testing.assert_array_equal(evaluate("max(x, y)", x, y), np.fmax(x, y))


@pytest.mark.parametrize("name", ["sin", "cos", "exp", "log", "tanh", "sqrt", "floor", "erf", "cbrt", "log2"])
def test_double_functions(name):
    x = np.abs(RNG.normal(size=N)) * 10 + 1e-3
    reference = {"erf": np.vectorize(math.erf)}.get(name) or getattr(np, name)
    np.testing.assert_allclose(evaluate(f"{name}(x)", x), reference(x), rtol=5e-16, atol=1e-16)


def test_overloads_by_type():
    source = """
template <class T, class U> struct same { static const int value = 0; };
template <class T> struct same<T, T> { static const int value = 1; };
#define IS(T, e) same<T, decltype(e)>::value
extern "C" __global__ void k(int* out) {
  int all[] = {IS(float, sin(1.0f)), IS(double, sin(1.0)), IS(double, sqrt(2)), IS(float, pow(2.0f, 3)),
               IS(double, pow(2.0f, 3.0)), IS(float, max(1.0f, 2.0f)), IS(double, max(1, 2.0f)),
               IS(unsigned, min(1, 2u)), IS(int, abs(-1)), IS(float, abs(-1.0f)),
               IS(double, fmax(1.0f, 2.0)), IS(float, fma(1.0f, 2.0f, 3.0f))};
  for (int i = 0; i < 12; ++i) out[i] = all[i];
}"""
    out = np.zeros(12, np.int32)
    Program(source).run("k", 1, 1, out)
    np.testing.assert_array_equal(out, 1)


@pytest.mark.parametrize(
    ("expression", "reference"),
    [
        ("__popc(x)", lambda x: bin(x).count("1")),
        ("__clz(x)", lambda x: 32 - x.bit_length()),
        ("__ffs(x)", lambda x: (x & -x).bit_length()),
        ("__brev(x)", lambda x: int(f"{x:032b}"[::-1], 2)),
        ("__umulhi(x, 0x9e3779b9u)", lambda x: x * 0x9E3779B9 >> 32),
        ("__umul24(x, 77u)", lambda x: (x & 0xFFFFFF) * 77 & 0xFFFFFFFF),
        ("__byte_perm(x, 0x44332211u, 0x5071u)", lambda x: x >> 8 & 255 | 0x44 << 8 | (x & 255) << 16 | 0x22 << 24),
        ("__funnelshift_l(x, 0x12345678u, 8)", lambda x: (0x12345678 << 8 | x >> 24) & 0xFFFFFFFF),
        ("__usad(x, 1000u, 5u)", lambda x: abs(x - 1000) + 5 & 0xFFFFFFFF),
        ("__dp4a(x, 0x01020304u, 9u)", lambda x: 9 + sum((x >> 8 * i & 255) * (4 - i) for i in range(4))),
        ("__float_as_uint(__uint_as_float(x))", lambda x: x),
    ],
)
def test_integer_intrinsics(expression, reference):
    x = np.concatenate([[0, 1, 2, 0x7F7FFFFF, 0x01020304], RNG.integers(0, 2**31 - 2**24, 200)]).astype(np.uint32)
    np.testing.assert_array_equal(evaluate(expression, x), [reference(int(v)) for v in x])


def test_signed_intrinsics():
    x = RNG.integers(-(2**31), 2**31, 300).astype(np.int32)
    y = RNG.integers(-(2**31), 2**31, 300).astype(np.int32)
    wide = x.astype(np.int64) * y
    np.testing.assert_array_equal(evaluate("__mulhi(x, y)", x, y), (wide >> 32).astype(np.int32))
    np.testing.assert_array_equal(evaluate("__hadd(x, y)", x, y), (x.astype(np.int64) + y >> 1).astype(np.int32))
    low = lambda v: v.astype(np.int64) << 40 >> 40  # noqa: E731
    np.testing.assert_array_equal(evaluate("__mul24(x, y)", x, y), (low(x) * low(y)).astype(np.int32))
    bytes_x, bytes_y = x.view(np.int8).reshape(-1, 4).astype(np.int32), y.view(np.int8).reshape(-1, 4).astype(np.int32)
    np.testing.assert_array_equal(evaluate("__dp4a(x, y, 3)", x, y), (bytes_x * bytes_y).sum(1) + 3)


def test_conversions_by_rounding_mode():
    x = np.array([1.5, 2.5, -1.5, -2.5, 0.2, -0.2, 3e9, -3e9, 5e9, np.inf, -np.inf, np.nan], np.float32)
    clamp = lambda v, low, high: np.clip(np.nan_to_num(v, nan=0, posinf=1e30, neginf=-1e30), low, high)  # noqa: E731
    for mode, round_ in (("rn", np.rint), ("rz", np.trunc), ("ru", np.ceil), ("rd", np.floor)):
        want = clamp(round_(x.astype(np.float64)), -(2**31), 2**31 - 1).astype(np.int64)
        np.testing.assert_array_equal(evaluate(f"__float2int_{mode}(x)", x, out=np.int32), want)
        want = clamp(round_(x.astype(np.float64)), 0, 2**32 - 1).astype(np.int64)
        np.testing.assert_array_equal(evaluate(f"__float2uint_{mode}(x)", x, out=np.uint32), want)


def test_decomposition():
    x = np.array([0, 1, 0.75, -3, 1e-40, 1e30, 1.5], np.float32)
    want_m, want_e = np.frexp(x)
    np.testing.assert_array_equal(evaluate("0; int e; out[i] = frexpf(x, &e)", x), want_m)
    np.testing.assert_array_equal(evaluate("0; int e; frexpf(x, &e); out[i] = e", x, out=np.int32), want_e)
    np.testing.assert_array_equal(evaluate("ldexpf(x, -3)", x), np.ldexp(x, -3))
    np.testing.assert_array_equal(evaluate("ldexpf(x, -200)", x), np.ldexp(x, -200))
    np.testing.assert_array_equal(evaluate("nextafterf(x, 2.0f)", x), np.nextafter(x, np.float32(2)))
    np.testing.assert_array_equal(evaluate("fmodf(x, 0.7f)", x), np.fmod(x, np.float32(0.7)))


def test_vector_types():
    source = """
extern "C" __global__ void k(float* f, int* n, const float4* v, const uchar4* c) {
  float4 a = v[0], b = make_float4(1, 2, 3, 4);
  float4 r = (a + b) * 2.0f - b / a;
  f[0] = r.x; f[1] = r.y; f[2] = r.z; f[3] = r.w;
  r += make_float4(1, 1, 1, 1); r *= 0.5f;
  f[4] = (-r).w;
  int2 p = {3, 4}; int3 q = make_int3(1, 2, 3);
  n[0] = (p + p).y; n[1] = (q << 2).z; n[2] = p == make_int2(3, 4); n[3] = p != p;
  n[4] = c[0].x + c[0].y + c[0].z + c[0].w;
  n[5] = sizeof(float3) * 1000 + alignof(float4) * 10 + sizeof(char4);
  n[6] = (~make_uint2(0, 1)).x == 0xffffffffu;
  n[7] = make_longlong2(1ll << 40, 2).x >> 38;
}"""
    f, n = np.zeros(5, np.float32), np.zeros(8, np.int32)
    a, b = np.array([5, 6, 7, 8], np.float32), np.array([1, 2, 3, 4], np.float32)
    Program(source).run("k", 1, 1, f, n, a, np.array([250, 251, 252, 253], np.uint8))
    want = (a + b) * 2 - b / a
    np.testing.assert_allclose(f, [*want, -(want[3] + 1) / 2], rtol=2e-7)
    np.testing.assert_array_equal(n, [8, 12, 1, 0, 1006, 12164, 1, 4])


def test_arithmetic_obeys_ieee_unless_asked_otherwise():
    """Sums are not reordered, and infinities and not-a-numbers are seen."""
    source = """
extern "C" __global__ void k(const float* x, float* out, int n) {
  float sum = 0;
  for (int i = 0; i < n; ++i) sum += x[i];
  out[0] = sum;
  out[1] = x[0] != x[0] ? 1 : 0;
  out[2] = isinf(x[1]) ? 1 : 0;
}"""
    x = (RNG.normal(size=5000) * 10.0 ** RNG.uniform(-3, 3, 5000)).astype(np.float32)
    out = np.zeros(3, np.float32)
    Program(source).run("k", 1, 1, x, out, np.int32(x.size))
    want = np.float32(0)
    for value in x:
        want += value
    assert out[0] == want
    out = np.zeros(3, np.float32)
    Program(source).run("k", 1, 1, np.array([np.nan, np.inf], np.float32), out, np.int32(2))
    assert out[1] == out[2] == 1


def test_products_marked_as_rounded_are_not_contracted():
    x, y = (RNG.normal(size=N).astype(np.float32) for _ in range(2))
    np.testing.assert_array_equal(evaluate("__fadd_rn(__fmul_rn(x, y), 1.0f)", x, y), x * y + np.float32(1))
    fused = (x.astype(np.float64) * y + 1).astype(np.float32)
    np.testing.assert_array_equal(evaluate("__fmaf_rn(x, y, 1.0f)", x, y), fused)
    np.testing.assert_array_equal(evaluate("x * y + 1.0f", x, y, options=["-ffp-contract=off"]), x * y + np.float32(1))


def test_clocks_go_forward():
    source = """
extern "C" __global__ void k(long long* out) {
  long long a = wall_clock64(), b = clock64();
  out[0] = b - a; out[1] = a > 0;
}"""
    out = np.zeros(2, np.int64)
    Program(source).run("k", 1, 1, out)
    assert out[0] >= 0
    assert out[1] == 1
