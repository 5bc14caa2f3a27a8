"""Every name that Metal's library and MLX give a body: with a value, known to AMD's targets and to the checker."""

import re

import numpy as np
import pytest

import hiprt
from hiprt.kernels.lang.attributes import ATTRIBUTES
from hiprt.kernels.lang.dialect import BODY, prelude
from hiprt.kernels.lang.metal_body import Body, Form, Operand
from hiprt.kernels.offline.amd_compiler import Compiler
from hiprt.metal_compat import check_metal, metal_kernel

HEADER = """constant mlx::os_log logger("mlx", "names");
template <typename T> [[kernel]] void other(device T* out [[buffer(0)]]) { out[0] = 1; }
instantiate_kernel("other_float", other, float)
"""

INTEGERS = {
    "abs(-7)": 7,
    "abs(short(-7))": 7,
    "abs(-7L)": 7,
    "abs(char(-7))": 7,
    "abs(int2(-3, 4)).x": 3,
    "absdiff(3, -4)": 7,
    "absdiff(uchar(3), uchar(9))": 6,
    "absdiff(int2(3, -4), int2(-3, 4)).y": 8,
    "addsat(2147483647, 5) == 2147483647": 1,
    "addsat(uchar(250), uchar(9))": 255,
    "addsat(0x7fffffffffffffffL, 5L) == 0x7fffffffffffffffL": 1,
    "addsat(~0ul, 5ul) == ~0ul": 1,
    "addsat(short2(32767, 1), short2(5)).x": 32767,
    "addsat(uint3(~0u), uint3(2)).z == ~0u": 1,
    "subsat(3u, 5u)": 0,
    "subsat(char(-120), char(20))": -128,
    "subsat(3ul, 5ul)": 0,
    "subsat(-0x7fffffffffffffffL, 5L) < -0x7fffffffffffffffL": 1,
    "subsat(ushort4(3), ushort4(5)).w": 0,
    "clamp(9, 1, 5)": 5,
    "clamp(int3(9, 0, 3), int3(1), int3(5)).x": 5,
    "clamp(uchar2(9), uchar2(1), uchar2(5)).y": 5,
    "clz(1u)": 31,
    "clz(0u)": 32,
    "clz(ushort(1))": 15,
    "clz(1L)": 63,
    "clz(uint2(1, 4)).y": 29,
    "ctz(8)": 3,
    "ctz(0u)": 32,
    "ctz(uchar(0))": 8,
    "ctz(ulong2(8, 1)).x": 3,
    "extract_bits(0xabcdu, 4, 8)": 0xBC,
    "extract_bits(-16, 4, 4)": -1,
    "extract_bits(uint2(0xabcd), 4, 8).y": 0xBC,
    "extract_bits(int3(-16), 4, 4).z": -1,
    "insert_bits(0u, 5u, 4, 3)": 80,
    "insert_bits(int2(0), int2(5), 4, 3).x": 80,
    "hadd(5, 8)": 6,
    "hadd(uchar(255), uchar(253))": 254,
    "hadd(int4(5), int4(8)).w": 6,
    "rhadd(5, 8)": 7,
    "rhadd(ushort2(5), ushort2(8)).x": 7,
    "mad24(3, 4, 5)": 17,
    "mad24(uint2(3), uint2(4), uint2(5)).y": 17,
    "mul24(-3, 4)": -12,
    "mul24(int2(-3), int2(4)).x": -12,
    "madhi(0x40000000, 16, 3)": 7,
    "madhi(uint2(0x80000000u), uint2(4), uint2(3)).x": 5,
    "madhi(char(64), char(8), char(1))": 3,
    "madsat(2147483647, 2, 5) == 2147483647": 1,
    "madsat(uchar(20), uchar(20), uchar(1))": 255,
    "madsat(int2(3, -4), int2(3), int2(1)).y": -11,
    "madsat(-3L, 5L, 4L)": -11,
    "madsat(3ul, 5ul, 4ul)": 19,
    "madsat(-0x4000000000000000L, 4L, 1L) < -0x7fffffffffffffffL": 1,
    "mulhi(0x80000000u, 6u)": 3,
    "mulhi(-2, 3)": -1,
    "mulhi(short(-32768), short(4))": -2,
    "mulhi(uchar(128), uchar(6))": 3,
    "mulhi(-5L, 0x4000000000000000L)": -2,
    "mulhi(0x8000000000000000ul, 6ul)": 3,
    "mulhi(uint2(0x80000000u), uint2(6)).x": 3,
    "max(uchar(3), uchar(9))": 9,
    "max(int4(3), int4(9)).z": 9,
    "max(long2(3), long2(9)).x": 9,
    "max(char3(3), char3(-9)).x": 3,
    "min(3L, -9L)": -9,
    "min(uint2(3, 9), uint2(5)).y": 5,
    "max3(1, 3, 2)": 3,
    "min3(uchar(4), uchar(3), uchar(5))": 3,
    "median3(3, 1, 2)": 2,
    "median3(int2(3), int2(1), int2(2)).y": 2,
    "popcount(0xf0fu)": 8,
    "popcount(-1L)": 64,
    "popcount(char(-1))": 8,
    "popcount(uint3(7, 3, 1)).y": 2,
    "reverse_bits(1u) >> 31": 1,
    "reverse_bits(uchar(1))": 128,
    "reverse_bits(ushort2(1)).x": 32768,
    "rotate(0x80000001u, 1u)": 3,
    "rotate(uchar(129), uchar(1))": 3,
    "rotate(uint2(0x80000001u), uint2(1)).y": 3,
    "select(1, 2, true)": 2,
    "select(int2(1), int2(2), bool2(true, false)).y": 1,
    "popcount(uint4(1, 3, 7, 15).wz).y": 3,
    "insert_bits(int2(0), int2(5, 6).yx, 4, 3).y": 80,
    "select(int2(1).yx, int2(2).xy, int2(3, 0) > 0).x": 2,
    "max(int3(1, 5, 2).zy, 3).y": 5,
}

FLOATS = {
    "acos(0.5)": np.arccos(0.5),
    "acosh(2.0)": np.arccosh(2),
    "asin(0.5)": np.arcsin(0.5),
    "asinh(2.0)": np.arcsinh(2),
    "atan(2.0)": np.arctan(2),
    "atan2(1.0, -1.0)": np.arctan2(1, -1),
    "atanh(0.5)": np.arctanh(0.5),
    "ceil(1.25)": 2,
    "copysign(3.0, -0.0)": -3,
    "cos(1.0)": np.cos(1),
    "cosh(1.0)": np.cosh(1),
    "cospi(1.0)": -1,
    "divide(1.0, 4.0)": 0.25,
    "exp(1.0)": np.e,
    "exp10(2.0)": 100,
    "exp2(3.0)": 8,
    "fabs(-2.0)": 2,
    "abs(-2.0)": 2,
    "fdim(5.0, 3.0)": 2,
    "floor(-1.25)": -2,
    "fma(2.0, 3.0, 4.0)": 10,
    "fmax(1.0, NAN)": 1,
    "fmax3(1.0, 3.0, 2.0)": 3,
    "fmedian3(1.0, 3.0, 2.0)": 2,
    "fmin(NAN, 1.0)": 1,
    "fmin3(2.0, 1.0, 3.0)": 1,
    "fmod(7.5, 2.0)": 1.5,
    "fract(-1.25)": 0.75,
    "ilogb(9.0)": 3,
    "ldexp(1.5, 3)": 12,
    "log(2.0)": np.log(2),
    "log10(1000.0)": 3,
    "log2(8.0)": 3,
    "log1p(1e-7)": np.log1p(1e-7),
    "nextafter(1.0, 2.0) > 1.0": 1,
    "pow(2.0, 0.5)": 2**0.5,
    "powr(2.0, 3.0)": 8,
    "rint(2.5)": 2,
    "round(2.5)": 3,
    "rsqrt(4.0)": 0.5,
    "sin(1.0)": np.sin(1),
    "sinh(1.0)": np.sinh(1),
    "sinpi(0.5)": 1,
    "sqrt(9.0)": 3,
    "tan(1.0)": np.tan(1),
    "tanh(1.0)": np.tanh(1),
    "tanpi(0.25)": 1,
    "trunc(-1.75)": -1,
    "clamp(9.0, 1.0, 5.0)": 5,
    "mix(1.0, 3.0, 0.25)": 1.5,
    "saturate(-1.0)": 0,
    "sign(-3.0)": -1,
    "smoothstep(0.0, 2.0, 1.0)": 0.5,
    "step(2.0, 3.0)": 1,
    "max(1.0, 2.0)": 2,
    "min(1.0, 2.0)": 1,
    "min3(3.0, 1.0, 2.0)": 1,
    "max3(3.0, 1.0, 2.0)": 3,
    "median3(3.0, 1.0, 2.0)": 2,
    "isfinite(INFINITY)": 0,
    "isinf(-INFINITY)": 1,
    "isnan(NAN)": 1,
    "isnormal(1.0)": 1,
    "isordered(1.0, NAN)": 0,
    "isunordered(1.0, NAN)": 1,
    "signbit(-1.0)": 1,
    "select(1.0, 2.0, false)": 1,
    "all(bool2(true, false))": 0,
    "any(bool2(true, false))": 1,
    "cross(float3(1, 0, 0), float3(0, 1, 0)).z": 1,
    "distance(float2(0), float2(3, 4))": 5,
    "distance_squared(float2(0), float2(3, 4))": 25,
    "dot(float3(1, 2, 3), float3(2))": 12,
    "length(float2(3, 4))": 5,
    "length_squared(float2(3, 4))": 25,
    "normalize(float2(3, 4)).y": 0.8,
    "reflect(float2(1, -1), float2(0, 1)).y": 1,
    "refract(float2(0, -1), float2(0, 1), 0.5).y": -1,
    "faceforward(float2(0, 1), float2(0, -1), float2(0, 1)).y": 1,
    "sqrt(float3(4)).z": 2,
    "exp(half(1))": np.float16(np.e),
    "float(sqrt(bfloat(9)))": 3,
    "float(exp2(bfloat(3)))": 8,
    "float(max(bfloat(1), bfloat(2)))": 2,
    "float(log1p(bfloat(0)))": 0,
    "fma(half2(2), half2(3), half2(4)).x": 10,
    "precise::exp(1.0)": np.e,
    "metal::precise::sin(1.0)": np.sin(1),
    "fast::cos(1.0)": np.cos(1),
    "metal::fast::tanh(1.0)": np.tanh(1),
    "precise::rsqrt(4.0)": 0.5,
    "fast::pow(2.0, 3.0)": 8,
    "precise::divide(1.0, 4.0)": 0.25,
    "fast::normalize(float2(3, 4)).x": 0.6,
    "as_type<float>(0x40000000u)": 2,
    "as_type<ushort>(half(1))": 0x3C00,
    "as_type<uint>(as_type<half2>(7u))": 7,
}

MLX = {
    "float(float16_t(1.5))": 1.5,
    "float(bfloat16_t(1.5))": 1.5,
    "(complex64_t(1, 2) * complex64_t(0, 1)).real": -2,
    "(complex64_t(4, 2) / complex64_t(2, 0)).imag": 1,
    "complex64_t(1, 2) < complex64_t(1, 3)": 1,
    "log1p(complex64_t(0, 0)).real": 0,
    "(complex64_t(7, 5) % complex64_t(4, 3)).real": 3,
    "ceildiv(10, 4)": 3,
    "Limits<int>::max == 2147483647": 1,
    "Limits<int>::min + 1 == -2147483647": 1,
    "Limits<uint8_t>::max": 255,
    "Limits<float>::max": np.inf,
    "Limits<float>::finite_max == 3.40282347e38f": 1,
    "float(Limits<half>::finite_min)": -65504,
    "float(Limits<bfloat16_t>::min)": -np.inf,
    "Limits<bool>::max": 1,
    "WorkPerThread<half>::n": 4,
    "WorkPerThread<long>::n": 1,
    "sizeof(ConditionalType<true, char, int>::type)": 1,
    "cast_to<int>(2.75)": 2,
    "REDUCE_N_READS": 4,
    "REDUCE_N_WRITES": 4,
    "SOFTMAX_N_READS": 4,
    "RMS_N_READS": 4,
    "RMS_LOOPED_LIMIT": 4096,
    "MAX_REDUCE_SPECIALIZED_DIMS": 4,
    "elem_to_loc(4, a_shape, a_strides, a_ndim)": 4,
    "elem_to_loc<int64_t>(4, a_shape, a_strides, a_ndim)": 4,
    "elem_to_loc(uint3(1, 1, 0), a_shape, a_strides, a_ndim)": 7,
    "elem_to_loc_1(3, a_strides[0])": 18,
    "elem_to_loc_2(uint2(1, 2), a_strides)": 13,
    "elem_to_loc_2_nd(uint3(1, 1, 0), a_shape, a_strides, a_strides, a_ndim).y": 7,
    "elem_to_loc_3_nd(uint3(1, 1, 0), a_shape, a_strides, a_strides, a_strides, a_ndim).z": 7,
}
STATEMENTS = {
    "int e; float m = frexp(12.0, e); out[AT] = m + e;": 4.75,
    "float w; float f = modf(-2.75, w); out[AT] = f * 100 + w;": -77,
    "float c; float s = sincos(0.0, c); out[AT] = s + c;": 1,
    "LoopedElemToLoc<2, int64_t> walk(a_ndim); walk.next(a_shape, a_strides); walk.next(7, a_shape, a_strides); "
    "out[AT] = walk.location();": 8,
    'logger.log_debug("value %d", 3); logger.log_info("none"); out[AT] = 5;': 5,
    "float s = 0; MLX_MTL_PRAGMA_UNROLL for (int i = 0; i < 4; i++) s += i; out[AT] = s;": 6,
    "out[AT] = simd_sum(1L) + simd_max(2ul) + simd_shuffle(complex64_t(3, 4), 0).imag + simd_shuffle_up(true, 1);": 8,
    "out[AT] = float(simd_shuffle_and_fill_up(7L, 9L, 0)) + float(simd_shuffle_down(5ul, 0));": 12,
    "threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device | mem_flags::mem_none); out[AT] = 1;": 1,
    "simdgroup_barrier(mem_flags::mem_none); out[AT] = 1;": 1,
}
TABLE = {**{f"out[AT] = float({e});": value for e, value in {**INTEGERS, **FLOATS, **MLX}.items()}, **STATEMENTS}
SOURCE = "\n".join(f"{{ {line.replace('AT', str(i), 1)} }}" for i, line in enumerate(TABLE)).replace("[AT]", "[0]")
INPUT = np.zeros((4, 6), np.float32)


@pytest.fixture(scope="module")
def results():
    """One thread evaluates them all."""
    kernel = metal_kernel("names", ["a"], ["out"], SOURCE, HEADER)
    with hiprt.Stream() as stream, hiprt.use_stream(stream):
        how = {"grid": (1, 1, 1), "threadgroup": (1, 1, 1), "output_dtypes": [np.dtype(np.float32)]}
        return kernel(inputs=[INPUT], output_shapes=[(len(TABLE),)], **how)[0].numpy()


@pytest.mark.parametrize("line", TABLE)
def test_a_name_has_its_value(line, results):
    got = results[list(TABLE).index(line)]
    np.testing.assert_allclose(got, np.float32(TABLE[line]), rtol=1e-6)


FORM = Form((Operand(np.dtype(np.float32), 2, False),), (np.dtype(np.float32),))


@pytest.mark.parametrize("target", ["gfx942", "gfx1201"])
def test_amd_has_every_name(target):
    text = Body("names", ("a",), ("out",), SOURCE, HEADER).hip(FORM, line=True, threads=32)
    assert ".globl" in Compiler().assembly(text, "names", target)


def test_the_checker_knows_every_name():
    assert check_metal(Body("names", ("a",), ("out",), SOURCE, HEADER).metal(FORM)) == []


# What no parameter can be named: words of C++ and of Metal, HIP's names of places, and macros that Metal has too.
RESERVED = set(
    "alignas alignof asm auto bool break case catch char class const constexpr continue decltype default defined "
    "delete do double else enum explicit extern false float for friend if inline int long mutable namespace new "
    "noexcept operator private protected public register return short signed sizeof static static_assert static_cast "
    "struct switch template this thread_local true try typedef typename union unsigned using virtual void volatile "
    "wchar_t while and and_eq bitand bitor compl not not_eq or or_eq xor xor_eq device constant thread threadgroup "
    "kernel threadIdx blockIdx blockDim gridDim".split()
)
MACROS = re.compile(r"HIPRT_\w*|MLX_\w*|M_\w+_[FH]|(?:FLT|INT|UINT)_\w+|NAN|INFINITY|MAXFLOAT|HUGE_VALF|__\w*|_\w*")


def identifiers():
    """Every identifier of the prelude and of the text around a body, in order."""
    whole = "".join(
        Body("wrapper", ("x",), ("y",), f"x_shape x_strides x_ndim {' '.join(ATTRIBUTES)}").hip(
            FORM, line=line, threads=32, is_folded=not line
        )
        for line in (True, False)
    )
    code = re.sub(r'//.*|/\*.*?\*/|"[^"\n]*"', "", whole + prelude(BODY))
    names = dict.fromkeys(re.findall(r"\b[A-Za-z_]\w*\b", code))
    return [n for n in names if n not in RESERVED | ATTRIBUTES.keys() and not MACROS.fullmatch(n) and "hiprt" not in n]


def chunks(names, size=9):
    """The names in groups that one kernel takes; each has an input, its shape and its strides."""
    return [names[i : i + size] for i in range(0, len(names), size)]


@pytest.fixture(scope="module")
def body_of():
    """A body whose inputs have these names, which reads each of them, their shapes and an attribute."""

    def make(names):
        read = " + ".join(f"{n}[0] + {n}_shape[1] + {n}_strides[0]" for n in names)
        at = "threads_per_grid.x + thread_position_in_grid.x - 1"
        return f"hiprt_result[{at}] = {read};"

    return make


def test_the_prelude_has_names():
    found = identifiers()
    assert len(found) > 500
    assert {"here", "extent", "place", "group", "uint", "metal", "min", "half", "float4", "int64_t"} <= set(found)


@pytest.mark.every(3)
@pytest.mark.parametrize("names", chunks(identifiers()), ids=lambda names: names[0])
def test_a_parameter_may_have_any_name_of_the_prelude(names, body_of):
    kernel = metal_kernel("named", names, ["hiprt_result"], body_of(names))
    inputs = [hiprt.array(np.full((2, 6), i, np.float32)) for i in range(len(names))]
    how = {"grid": (1, 1, 1), "threadgroup": (1, 1, 1), "output_dtypes": [np.dtype(np.float32)]}
    (got,) = kernel(inputs=inputs, output_shapes=[(1,)], **how)
    assert got.item() == sum(i + 6 + 6 for i in range(len(names)))


@pytest.mark.parametrize("name", ["here", "extent", "uint3", "T", "values"])
def test_an_output_and_a_template_parameter_may_too(name):
    """For sizes of threadgroups that are in one line and that are not."""
    for size in ((4, 1, 1), (2, 2, 1)):
        kernel = metal_kernel("named", ["other"], [name], f"{name}[thread_index_in_threadgroup] = other + N;")
        how = {"threadgroup": size, "grid": size, "output_dtypes": [np.dtype(np.int32)], "template": [("N", 2)]}
        assert kernel(inputs=[1], output_shapes=[(4,)], **how)[0].numpy().tolist() == [3] * 4
        kernel = metal_kernel("named", ["other"], ["made"], f"made[thread_index_in_threadgroup] = other + {name};")
        assert (
            kernel(inputs=[1], output_shapes=[(4,)], **how | {"template": [(name, 2)]})[0].numpy().tolist() == [3] * 4
        )
