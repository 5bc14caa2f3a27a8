"""What hiprtc has read before a program: HIP's types, complex numbers and constants, without an #include."""

import numpy as np
import pytest
from helpers.rtc import RESULT, Program, build

WRITE = 'extern "C" __global__ void write(float* out) {{ out[threadIdx.x] = {}; }}'
UNFAMILIAR = """
typedef _Float16 half;
struct hipless { half HIPLESS; };
extern "C" __global__ void write(float* out) { out[0] = float(half(1.5f)) + hipless{2}.HIPLESS; }
"""


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("float(__half(1.5f) + __half(2))", 3.5),
        ("__low2float(__halves2half2(4, 5))", 4),
        ("float(hip_bfloat16(3.0f) * hip_bfloat16(2.0f))", 6),
        ("hipCmulf(make_hipFloatComplex(1, 2), make_hipFloatComplex(3, 4)).x", -5),
        ("hipCabs(make_hipDoubleComplex(3, 4))", 5),
        ("HIP_PIO2_F == float(HIP_PIO2)", 1),
        ("hipAddressModeBorder + 10 * hipFilterModeLinear + 100 * hipTextureType3D", 313),
        ("__hip_internal::is_same<unsigned, uint32_t>::value", 1),
    ],
)
def test_names_without_an_include(expression, value):
    out = np.zeros(1, np.float32)
    Program(WRITE.format(expression)).run("write", 1, 1, out)
    assert out[0] == value


def test_name_expressions_may_use_them():
    source = "template <class T> __global__ void k(T* p) { p[0] = T(float(p[0]) + 1.0f); }"
    values = np.array([2], np.float16)
    Program(source, expressions=["k<__half>"]).run("k<__half>", 1, 1, values)
    assert values[0] == 3


def test_a_program_may_have_a_half_of_its_own():
    out = np.zeros(1, np.float32)
    Program(UNFAMILIAR).run("write", 1, 1, out)
    assert out[0] == 3.5


@pytest.mark.parametrize(("value", "name"), [(0, "long"), (1, "long long")])
def test_ptrdiff_t_is_what_the_option_says(value, name):
    out = np.zeros(1, np.float32)
    source = WRITE.format(f"__hip_internal::is_same<ptrdiff_t, {name}>::value")
    Program(source, options=[f"-D__HIPRTC_PTRDIFF_T_IS_LONG_LONG__={value}"]).run("write", 1, 1, out)
    assert out[0] == 1


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_vectors_step_and_compare_with_numbers(size):
    """Each operator returns what the one of an int does; all elements take part."""
    all_ = ", ".join(["5"] * size)
    source = f"""extern "C" __global__ void write(float* out) {{
  int{size} v({all_}), before = v++;
  out[0] = before == 5 && v == 6 && 6 == v && v != 5 && 5 != v;
  out[1] = (++v == 7) && v-- == 7 && v == 6 && --v == before;
  v.x = 9;
  out[2] = (v == 9) == ({size} == 1) && v != 5;
}}"""
    out = np.zeros(3, np.float32)
    Program(source).run("write", 1, 1, out)
    np.testing.assert_array_equal(out, 1)


@pytest.mark.parametrize("type_", ["__half", "__half2", "hip_bfloat16"])
def test_short_floats_step(type_):
    source = f"""extern "C" __global__ void write(float* out) {{
  {type_} v(2.0f), before = v++;
  out[0] = before == {type_}(2.0f) && v == {type_}(3.0f) && +v == v && -v != v;
  out[1] = ++v == {type_}(4.0f) && v-- == {type_}(4.0f) && --v == before;
}}"""
    out = np.zeros(2, np.float32)
    Program(source).run("write", 1, 1, out)
    np.testing.assert_array_equal(out, 1)


def test_an_error_is_told_as_before():
    made = build(WRITE.format("__half(1) + nothing"), name="my.hip")
    assert made.status == RESULT.HIPRTC_ERROR_COMPILATION
    assert "my.hip:1:" in made.log
    assert "nothing" in made.log
