"""Bodies may use arrays and their layout, types, Metal's library, MLX's names, and math modes."""

import numpy as np
import pytest

import hiprt
from hiprt.metal_compat import metal_kernel

BF16 = hiprt.bfloat16
X = np.arange(24, dtype=np.float32).reshape(4, 6)

LAYOUTS = {
    "transposed": (lambda x: x.T, False),
    "every other row": (lambda x: x[::2], False),
    "a column": (lambda x: x[:, :1], False),
    "a transposed row": (lambda x: x.T[:1], False),
    "reversed": (lambda x: x[::-1], False),
    "rows from the second": (lambda x: x[1:], True),
    "one row": (lambda x: x[1], True),
    "another axis": (lambda x: x[:, None], True),
    "the first row": (lambda x: x[0:1], True),
    "nothing": (lambda x: x[4:], True),
}


@pytest.mark.parametrize("contiguous", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_inputs(layout, contiguous, run):
    """With ensure_row_contiguous plain indices suffice. Without it strides come in elements, negative ones too."""
    view, as_it_is = LAYOUTS[layout]
    x, exact = view(hiprt.array(X)), view(X)
    place = "i" if contiguous else "elem_to_loc<int64_t>(i, a_shape, a_strides, a_ndim)"
    source = f"uint i = thread_position_in_grid.x; out[i] = a[{place}];"
    got = run(source, [x], shape=exact.shape, ensure_row_contiguous=contiguous)
    np.testing.assert_array_equal(got, exact)
    assert x.is_contiguous is as_it_is


@pytest.mark.parametrize("contiguous", [True, False])
def test_shape_strides_and_ndim(contiguous, run):
    x = hiprt.array(X)[::-1, ::2]
    source = """
for (int k = 0; k < a_ndim; k++) { out[k] = a_shape[k]; out[2 + k] = a_strides[k]; }
out[4] = a_ndim;
"""
    got = run(source, [x], shape=(5,), dtype=np.int64, grid=(1, 1, 1), ensure_row_contiguous=contiguous)
    assert got.tolist() == [4, 3, *((3, 1) if contiguous else (-6, 2)), 2]


def test_a_stride_of_zero(run):
    x = hiprt.array(X)
    spread = hiprt.Array(x.buffer, (3, 6), x.dtype, x.address, (0, 1))
    source = (
        "uint i = thread_position_in_grid.x; out[i] = a[elem_to_loc(i, a_shape, a_strides, a_ndim)] + a_strides[0];"
    )
    np.testing.assert_array_equal(
        run(source, [spread], shape=(3, 6), ensure_row_contiguous=False), np.tile(X[0], (3, 1))
    )


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int16, np.float16, BF16, np.int64, np.complex64])
def test_copies_of_every_width(dtype, run):
    values = (np.arange(24) % 2).astype(dtype).reshape(4, 6)
    got = run("uint i = thread_position_in_grid.x; out[i] = a[i];", [hiprt.array(values).T], shape=(6, 4), dtype=dtype)
    np.testing.assert_array_equal(got, values.T)


def test_zero_sizes(run):
    empty = np.zeros((0, 3), np.float32)
    assert run("", [empty], shape=(0, 2), grid=(0, 1, 1), threadgroup=(1, 1, 1)).shape == (0, 2)
    kernel = metal_kernel("k", ["a"], ["x", "y"], "y[0] = a_shape[0] + a_shape[1];")
    x, y = kernel(inputs=[empty], output_shapes=[(0,), (1,)], output_dtypes=[np.float32] * 2, grid=(1, 1, 1),
                  threadgroup=(1, 1, 1), init_value=4)  # fmt: skip
    assert x.numpy().size == 0
    assert y.item() == 3


@pytest.mark.parametrize(
    ("value", "dtype", "exact"),
    [
        (1.5, np.int32, 1),
        (-1.5, np.int64, -1),
        (0.1, np.bool_, True),
        (0, np.bool_, False),
        (2.5, np.complex64, 2.5 + 0j),
        (1e-3, BF16, np.float32(1e-3).astype(BF16)),
        (-0.0, np.float16, -0.0),
        (float("inf"), np.float32, np.inf),
        (1 / 3, np.float16, np.float16(1 / 3)),
        (True, np.uint8, 1),
        (2**31, np.uint64, 2**31),
    ],
    ids=str,
)
def test_first_values(value, dtype, exact, run):
    got = run("", shape=(5, 3), dtype=dtype, grid=(1, 1, 1), init_value=value)
    np.testing.assert_array_equal(got, np.full((5, 3), exact, dtype))
    assert (np.signbit(got.real.astype(np.float32)) == np.signbit(np.float32(exact.real))).all()


def test_atomic_outputs(run):
    source = """
uint i = thread_position_in_grid.x;
atomic_fetch_add_explicit(&out[0], 1, memory_order_relaxed);
atomic_fetch_sub_explicit(&out[1], 2, memory_order_relaxed);
atomic_fetch_max_explicit(&out[2], int(i), memory_order_relaxed);
atomic_fetch_min_explicit(&out[3], -int(i), memory_order_relaxed);
atomic_fetch_or_explicit(&out[4], 1 << (i % 8), memory_order_relaxed);
atomic_fetch_xor_explicit(&out[5], int(i), memory_order_relaxed);
atomic_fetch_and_explicit(&out[6], ~int(i), memory_order_relaxed);
int seen = atomic_load_explicit(&out[7], memory_order_relaxed);
while (!atomic_compare_exchange_weak_explicit(&out[7], &seen, seen + 3, memory_order_relaxed, memory_order_relaxed)) {
}
if (i == 5) {
  int before = atomic_exchange_explicit(&out[8], 11, memory_order_relaxed);
  atomic_store_explicit(&out[9], before + 1, memory_order_relaxed);
}
"""
    got = run(
        source, shape=(10,), dtype=np.int32, grid=(100, 1, 1), threadgroup=(33, 1, 1), init_value=0, atomic_outputs=True
    )
    exclusive = int(np.bitwise_xor.reduce(np.arange(100)))
    assert got.tolist() == [100, -200, 99, -99, 255, exclusive, 0, 300, 11, 1]


def test_atomics_of_a_threadgroup(run):
    source = """
threadgroup atomic_uint count;
uint i = thread_index_in_threadgroup;
if (i == 0) atomic_store_explicit(&count, 0u, memory_order_relaxed);
threadgroup_barrier(mem_flags::mem_threadgroup);
atomic_fetch_add_explicit(&count, i, memory_order_relaxed);
threadgroup_barrier(mem_flags::mem_threadgroup);
out[thread_position_in_grid.x] = atomic_load_explicit(&count, memory_order_relaxed);
"""
    got = run(source, shape=(100,), dtype=np.uint32, threadgroup=(64, 1, 1))
    assert set(got[:64]) == {2016}
    assert set(got[64:]) == {630}


def test_float_atomics(run):
    source = "atomic_fetch_add_explicit(&out[thread_position_in_grid.x % 2], 0.5, memory_order_relaxed);"
    got = run(source, shape=(2,), grid=(101, 1, 1), threadgroup=(32, 1, 1), init_value=1, atomic_outputs=True)
    assert got.tolist() == [26.5, 26.0]


@pytest.mark.parametrize("dtype", [np.float16, BF16, np.float32])
def test_template_dtypes_and_conversions(dtype, run):
    source = """
uint i = thread_position_in_grid.x;
T v = a[i];
T w = v * v + T(N);
out[i] = B ? w : v;
"""
    values = np.linspace(-2, 2, 9).astype(dtype)
    template = [("T", np.dtype(dtype)), ("N", -3), ("B", True)]
    exact = ((values * values).astype(dtype) + np.asarray(-3).astype(dtype)).astype(dtype)
    got = run(source, [values], shape=(9,), dtype=dtype, template=template)
    np.testing.assert_allclose(got.astype(np.float32), exact.astype(np.float32), rtol=1e-2)


def test_conversions_of_bfloat(run):
    source = """
bfloat b = bfloat(1.5), c = 2;
auto sum = b + c;
auto wide = b + 1.0;
auto choice = true ? b : 0;
auto mixed = false ? b : 0.25;
out[0] = float(sum); out[1] = sizeof(sum); out[2] = sizeof(wide); out[3] = float(choice); out[4] = mixed;
out[5] = b < c; out[6] = b == 1.5; out[7] = int(c * 3); out[8] = float(-b); out[9] = float(half(b));
"""
    assert run(source, shape=(10,), grid=(1, 1, 1)).tolist() == [3.5, 2, 4, 1.5, 0.25, 1, 1, 6, -1.5, 1.5]


def test_numbers_without_suffix_are_float(run):
    source = (
        "out[0] = sizeof(1.0); out[1] = sizeof(1.h); out[2] = sizeof(.5e1); out[3] = 1e1 + 2.5h; out[4] = max(a, 0.5);"
    )
    assert run(source, [0.25], shape=(5,), grid=(1, 1, 1)).tolist() == [4, 2, 4, 12.5, 0.5]


def test_vectors(run):
    source = """
float4 v = float4(1, float2(2, 3), 4), w = v.wzyx;
v.xz += w.yx * 2.0;
float3 c = cross(float3(1, 0, 0), v.xyz);
uint3 u = uint3(7, 8, 9) % 4 << 1;
int2 q = -int2(3, -4);
half2 h = half2(v.xy);
packed_float3 p = packed_float3(v.zyx);
bool3 less = c < float3(1);
device float4* wide = (device float4*)out;
wide[0] = v;
wide[1] = float4(c, dot(v, w));
wide[2] = float4(u.x, u.y, u.z, q.y);
wide[3] = float4(h.r, h.g, p[0], float3(p).z);
wide[4] = float4(any(less), all(less), v[1], w.a);
wide[5] = select(v, w, v > w);
wide[6] = float4(length(float2(3, 4)), max(v, 3.0).x, clamp(v, 2, 3).w, sizeof(packed_half3));
wide[7] = mix(v, w, 0.5);
"""
    got = run(source, shape=(8, 4), grid=(1, 1, 1))
    v, w = np.float32([7, 2, 11, 4]), np.float32([4, 3, 2, 1])
    assert got[0].tolist() == v.tolist()
    assert got[1].tolist() == [0, -11, 2, float(v @ w)]
    assert got[2].tolist() == [6, 0, 2, 4]
    assert got[3].tolist() == [7, 2, 11, 7]
    assert got[4].tolist() == [1, 0, 2, 1]
    assert got[5].tolist() == [4, 2, 2, 1]
    assert got[6].tolist() == [5, 7, 3, 6]
    assert got[7].tolist() == ((v + w) / 2).tolist()


def test_complex_numbers(run):
    source = """
complex64_t z = a[0], w = a[1];
out[0] = z + w; out[1] = z - w; out[2] = z * w; out[3] = z / w; out[4] = -z; out[5] = z * 2;
out[6] = complex64_t(z < w, z == z); out[7] = complex64_t(float(z), w.imag); z += w; out[8] = z; out[9] = z % w;
"""
    a = np.complex64([1 + 2j, 1 - 3j])
    z, w = a.astype(complex)
    exact = [z + w, z - w, z * w, z / w, -z, z * 2, 1j, 1 - 3j, z + w, 0 - 1j]
    np.testing.assert_allclose(run(source, [a], shape=(10,), dtype=np.complex64, grid=(1, 1, 1)), exact, rtol=1e-6)


UNARY = {
    "exp10": (lambda x: 10.0**x, -3, 3),
    "tan": (np.tan, -1.4, 1.4),
    "asin": (np.arcsin, -1, 1),
    "acos": (np.arccos, -1, 1),
    "atan": (np.arctan, -9, 9),
    "sinh": (np.sinh, -5, 5),
    "cosh": (np.cosh, -5, 5),
    "tanh": (np.tanh, -5, 5),
    "asinh": (np.arcsinh, -50, 50),
    "acosh": (np.arccosh, 1, 50),
    "atanh": (np.arctanh, -0.99, 0.99),
    "sinpi": (lambda x: np.sin(np.pi * x), -3, 3),
    "cospi": (lambda x: np.cos(np.pi * x), -3, 3),
    "log1p": (np.log1p, -0.9, 9),
    "fract": (lambda x: x - np.floor(x), -3, 3),
    "sign": (np.sign, -2, 2),
    "saturate": (lambda x: np.clip(x, 0, 1), -2, 2),
    "precise::tanh": (np.tanh, -2, 2),
    "metal::fast::exp2": (np.exp2, -4, 4),
}


@pytest.mark.every(2)
@pytest.mark.parametrize("name", UNARY)
def test_functions(name, run):
    function, low, high = UNARY[name]
    a = np.linspace(low, high, 501).astype(np.float32)
    got = run(f"uint i = thread_position_in_grid.x; out[i] = {name}(a[i]);", [a], shape=a.shape)
    np.testing.assert_allclose(got, function(a.astype(np.float64)), rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("dtype", [np.float16, BF16])
def test_functions_of_16_bit_numbers_round_once(dtype, run):
    a = np.linspace(-3, 3, 301).astype(dtype)
    source = "uint i = thread_position_in_grid.x; auto y = exp(a[i]); out[i] = sizeof(y) == 2 ? y : decltype(y)(0);"
    got = run(source, [a], shape=a.shape, dtype=dtype)
    exact = np.exp(a.astype(np.float64)).astype(dtype).astype(np.float32)
    np.testing.assert_allclose(got.astype(np.float32), exact, rtol=2**-7 if dtype is BF16 else 2**-10)
    assert (got.astype(np.float32) == exact).mean() > 0.98


def test_functions_of_several_arguments(run):
    source = """
out[0] = atan2(1.0, -1.0); out[1] = fmod(7.5, 2.0); out[2] = copysign(3.0, -0.0); out[3] = step(2.0, 3.0);
out[4] = smoothstep(0.0, 2.0, 1.0); out[5] = mix(1.0, 3.0, 0.25); out[6] = fdim(5.0, 3.0); out[7] = ldexp(1.5, 3);
int e; out[8] = frexp(12.0, e); out[9] = e;
float w; out[10] = modf(-2.75, w); out[11] = w; float c; out[12] = sincos(0.0, c);
out[13] = c; out[14] = ilogb(9.0); out[15] = nextafter(1.0, 2.0); out[16] = median3(3, 1, 2); out[17] = powr(2.0, 3.0);
"""
    exact = [
        2.3561945,
        1.5,
        -3,
        1,
        0.5,
        1.5,
        2,
        12,
        0.75,
        4,
        -0.75,
        -2,
        0,
        1,
        3,
        np.nextafter(np.float32(1), np.float32(2)),
        2,
        8,
    ]
    np.testing.assert_allclose(run(source, shape=(18,), grid=(1, 1, 1)), np.float32(exact), rtol=2e-7)


def test_functions_of_integers(run):
    source = """
out[0] = popcount(0xf0fu); out[1] = clz(1u); out[2] = ctz(8); out[3] = clz(ushort(1)); out[4] = reverse_bits(1u) >> 31;
out[5] = rotate(0x80000001u, 1u); out[6] = mulhi(0x80000000u, 6u); out[7] = absdiff(3, -4);
out[8] = extract_bits(0xabcdu, 4, 8);
out[9] = insert_bits(0u, 5u, 4, 3); out[10] = addsat(2147483647, 5) == 2147483647; out[11] = subsat(3u, 5u);
out[12] = hadd(5, 8); out[13] = rhadd(5, 8); out[14] = clz(0u); out[15] = abs(-7);
out[16] = extract_bits(-16, 4, 4) == -1;
out[17] = mad24(3, 4, 5); out[18] = max(uchar(3), uchar(9)); out[19] = popcount(-1L);
"""
    got = run(source, shape=(20,), dtype=np.uint32, grid=(1, 1, 1))
    assert got.tolist() == [8, 31, 3, 15, 1, 3, 3, 7, 0xBC, 80, 1, 0, 6, 7, 32, 7, 1, 17, 9, 64]


def test_limits_and_small_names_of_mlx(run):
    source = """
out[0] = Limits<float>::max; out[1] = Limits<float>::finite_min; out[2] = float(Limits<half>::finite_max);
out[3] = float(Limits<bfloat16_t>::min);
out[4] = Limits<int>::min; out[5] = Limits<uint8_t>::max; out[6] = Limits<bool>::max;
out[7] = ceildiv(10, 4); out[8] = WorkPerThread<half>::n; out[9] = sizeof(ConditionalType<false, char, int>::type);
out[10] = cast_to<int>(2.75);
out[11] = REDUCE_N_READS + REDUCE_N_WRITES + SOFTMAX_N_READS + RMS_N_READS + RMS_LOOPED_LIMIT
  + MAX_REDUCE_SPECIALIZED_DIMS; out[12] = Limits<complex64_t>::max == complex64_t(INFINITY, INFINITY); float s = 0;
MLX_MTL_PRAGMA_UNROLL
for (int i = 0; i < 4; i++) s += i;
out[13] = s;
"""
    got = run(source, shape=(14,), grid=(1, 1, 1)).tolist()
    assert got[:7] == [np.inf, np.finfo(np.float32).min, 65504, -np.inf, -(2**31), 255, 1]
    assert got[7:] == [3, 4, 4, 2, 4096 + 20, 1, 6]


def test_places_of_elements(run):
    x = hiprt.array(np.arange(210, dtype=np.float32).reshape(5, 6, 7)).transpose(2, 0, 1)
    exact = np.arange(210, dtype=np.float32).reshape(5, 6, 7).transpose(2, 0, 1)
    source = """
uint3 p = thread_position_in_grid;
uint i = p.x + 6 * (p.y + 5 * p.z);
auto both = elem_to_loc_2_nd<int64_t>(p, a_shape, a_strides, a_strides, a_ndim);
auto three = elem_to_loc_3_nd<int64_t>(p, a_shape, a_strides, a_strides, a_strides, a_ndim);
LoopedElemToLoc<3, int64_t> walk(a_ndim);
walk.next(i, a_shape, a_strides);
bool same = both.y == elem_to_loc_3<int64_t>(p, a_strides) && three.z == both.x && walk.location() == both.x;
same = same && elem_to_loc_1<int64_t>(p.x, a_strides[2]) + elem_to_loc_2<int64_t>(p.yz, a_strides) == both.x;
same = same && elem_to_loc<int64_t>(i, a_shape, a_strides, a_ndim) == both.x;
out[i] = same ? a[elem_to_loc<uint>(p, a_shape, a_strides, a_ndim)] : -1;
"""
    got = run(source, [x], shape=(7, 5, 6), grid=(6, 5, 7), threadgroup=(4, 4, 4), ensure_row_contiguous=False)
    np.testing.assert_array_equal(got, exact)


def test_a_walk_through_an_array(run):
    x = hiprt.array(X).T
    source = """
LoopedElemToLoc<2, uint> walk(a_ndim);
for (int i = 0; i < 24; i++) { out[i] = a[walk.location()]; walk.next(a_shape, a_strides); }
"""
    got = run(source, [x], shape=(6, 4), grid=(1, 1, 1), ensure_row_contiguous=False)
    np.testing.assert_array_equal(got, X.T)


def test_headers_with_constants_structures_and_templates(run):
    header = """#include <metal_stdlib>
using namespace metal;
constant float table[] = {0.5, 1.5};
constant constexpr int shift = 3;
constant float3 corner = float3(1, 2, 3);
struct Pair { float a; int b; };
template <typename T> T among(const device T* v, thread Pair& pair) { pair.b += 1; return v[pair.b]; }
"""
    source = "Pair p = {1, 0};\nthreadgroup Pair shared;\nshared = p;\n"
    source += "out[0] = among(a, p) + table[1] + shift + p.b + shared.a + corner.z;"
    got = run(source, [np.float32([10, 20])], shape=(1,), header=header)
    assert got.item() == 20 + 1.5 + 3 + 1 + 1 + 3


def test_threadgroup_variables_of_all_kinds(run):
    source = """
threadgroup float tile[2][32];
threadgroup float4 wide[2], single;
threadgroup half h;
threadgroup bfloat b[4];
uint i = thread_index_in_threadgroup;
threadgroup float* row = &tile[1][0];
row[i] = i;
if (i == 0) { wide[1] = float4(2); single = wide[1] * 3; h = 4; b[3] = bfloat(0.5); }
threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
out[i] = tile[1][31 - i] + single.y + float(h) + float(b[3]);
"""
    assert run(source, shape=(32,), threadgroup=(32, 1, 1)).tolist() == [31 - i + 10.5 for i in range(32)]


def test_math_modes(run):
    """__FAST_MATH__ tells the modes apart; safe and relaxed keep infinities and NaN."""
    source = """
#if defined(__FAST_MATH__) && __FAST_MATH__
out[0] = 1;
#else
out[0] = 0;
#endif
out[1] = exp(a[0]); out[2] = isnan(a[1]);
"""
    special = np.float32([-np.inf, np.nan])
    found = {
        mode: run(source, [special], shape=(3,), grid=(1, 1, 1), math_mode=mode) for mode in ("safe", "relaxed", "fast")
    }
    assert [values[0] for values in found.values()] == [0, 0, 1]
    assert found["safe"].tolist() == found["relaxed"].tolist() == [0, 0, 1]
    assert run(source, [special], shape=(3,), grid=(1, 1, 1)).tolist() == [0, 0, 1]


@pytest.mark.parametrize("mode", ["safe", "relaxed", "fast"])
def test_functions_are_right_in_every_mode(mode, run):
    a = np.linspace(-20, 20, 101).astype(np.float32)
    source = "uint i = thread_position_in_grid.x; out[i] = exp(a[i]) + log(fabs(a[i]) + 1) + rint(a[i]);"
    wide = a.astype(np.float64)
    exact = np.exp(wide) + np.log(np.abs(wide) + 1) + np.rint(wide)
    np.testing.assert_allclose(run(source, [a], shape=a.shape, math_mode=mode), exact, rtol=1e-5)


def test_products_and_sums_are_fused_in_relaxed_mode_only_where_it_may(run):
    a = np.full(8, 1 + 2.0**-13, np.float32)
    source = "uint i = thread_position_in_grid.x; out[i] = a[i] * a[i] - 1.0f;"
    assert set(run(source, [a], shape=(8,))) == {np.float32(2.0**-12)}
    assert set(run(source, [a], shape=(8,), math_mode="relaxed")) <= {
        np.float32(2.0**-12),
        np.float32(2.0**-12 + 2.0**-26),
    }


def test_names_of_the_prelude_are_free(run):
    """The prelude's helpers are no names of Metal, so a header may define these names."""
    header = """
struct pack { float v; };
inline float mad(float a, float b, float c) { return a - b - c; }
inline uint thread_index(uint i) { return i; }
template <typename T> T load8(T v) { return v; }
"""
    source = "pack p = {mad(9, 2, 1)};\nuint lane = thread_index(2);\nint group = 1, place = 2, site = 3;\n"
    source += "out[0] = load8(p.v) + lane + group + place + site;"
    assert run(source, shape=(1,), header=header).item() == 14
