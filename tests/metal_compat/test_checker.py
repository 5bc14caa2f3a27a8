"""The strict checker of Metal text: right programs pass, wrong ones are named on their line."""

import numpy as np
import pytest

import hiprt
from hiprt.kernels.lang.kernel import KERNELS
from hiprt.kernels.lang.metal_body import Body, Form, Operand
from hiprt.kernels.offline.catalogue import instances
from hiprt.metal_compat import check_metal

HEAD = """#include <metal_stdlib>
using namespace metal;
float helper(float x);
"""
FRAME = """[[kernel]] void k(
  const device float* x [[buffer(0)]],
  const constant float& scale [[buffer(1)]],
  device float* out [[buffer(2)]],
  uint3 thread_position_in_grid [[thread_position_in_grid]]) {
"""
BODY = HEAD + FRAME  # the body begins on line 9

WRONG = {
    "constant from device": (BODY + "constant float* p = x;\n}", 9, "device"),
    "device from thread": (BODY + "float v = 1;\ndevice float* p = &v;\n}", 10, "device"),
    "thread from device": (BODY + "thread float* p = out;\n}", 9, ""),
    "threadgroup from device": (BODY + "threadgroup float* p = out;\n}", 9, ""),
    "device from threadgroup": (BODY + "threadgroup float t[4];\ndevice float* p = t;\n}", 10, ""),
    "argument of another space": (
        "float f(constant float* p) { return p[0]; }\n" + FRAME + "out[0] = f(x);\n}",
        7,
        "no matching function",
    ),
    "write to an input": (BODY + "x[0] = 1;\n}", 9, "read-only"),
    "unknown attribute": (BODY.replace("[[buffer(1)]]", "[[uniform_value]]") + "}", 6, "uniform_value"),
    "type of an attribute": (BODY.replace("uint3 thread", "float3 thread") + "}", 8, "float3"),
    "attribute that is no parameter": (BODY + "out[thread_index_in_threadgroup] = 1;\n}", 9, "undeclared"),
    "index used twice": (BODY.replace("buffer(2)", "buffer(1)") + "}", 7, "twice"),
    "index too large": (BODY.replace("buffer(2)", "buffer(31)") + "}", 7, "31"),
    "parameter without attribute": (BODY.replace(" [[buffer(2)]]", "") + "}", 7, "no attribute"),
    "if constexpr": (BODY + "if constexpr (sizeof(int) == 4) out[0] = 1;\n}", 9, "C++17"),
    "structured binding": (BODY + "float a[2] = {1, 2};\nauto [b, c] = a;\n}", 10, "C++17"),
    "inline variable": ("inline constant constexpr int n = 3;\n" + FRAME + "out[0] = n;\n}", 1, "C++17"),
    "fold expression": (
        "template <typename... T>\nfloat sum(T... v) {\n  return (v + ...);\n}\n" + FRAME + "out[0] = sum(1, 2);\n}",
        3,
        "C++17",
    ),
    "double": (BODY + "double d = 1;\n}", 9, "double"),
    "try": (BODY + "try { out[0] = 1; } catch (...) {}\n}", 9, ""),
    "array of variable length": (BODY + "int n = int(scale);\nfloat a[n];\n}", 10, ""),
    "ambiguous function": (BODY + "out[0] = exp(2);\n}", 9, "ambiguous"),
    "unknown function": (BODY + "out[0] = erf_of(x[0]);\n}", 9, "erf_of"),
    "recursion": ("int f(int n) {\n  return n ? f(n - 1) : 0;\n}\n" + FRAME + "out[0] = f(3);\n}", 1, "recursion"),
    "pointer without a space": (BODY + "float* p = out;\n}", 9, "address space"),
    "pointer parameter without a space": ("float f(float* p) { return p[0]; }\n" + FRAME + "}", 1, "address space"),
    "lambda": (BODY + "auto f = [](float v) { return v; };\nout[0] = f(1);\n}", 9, "lambda"),
    "new": (BODY + "thread float* p = new float;\n}", 9, "new"),
    "a word of a macro": ("#define WIDE double\n" + FRAME + "WIDE d = 1;\n}", 1, "double"),
    "threadgroup with a value": (BODY + "threadgroup float t = 3;\n}", 9, ""),
    "half from bfloat": (BODY + "bfloat b = bfloat(1.0);\nhalf h = b;\n}", 10, ""),
    "bfloat from float": (BODY + "bfloat b = x[0];\n}", 9, ""),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_programs_are_refused_on_their_line(case):
    text, line, words = WRONG[case]
    problems = check_metal(text, "k.metal")
    assert any(p.file == "k.metal" and p.line == line and words in p.text for p in problems), problems


RIGHT = {
    "what other targets have": BODY + '#if HIPRT_TARGET_NVIDIA\nasm volatile("nop;");\n#endif\nout[0] = 1;\n}',
    "a constant of a class": "template <int N>\nstruct twice { static constexpr int value = 2 * N; };\n"
    + FRAME
    + "out[0] = twice<3>::value;\n}",
    "comments are not read": BODY + "// double* p = new float; [[nothing]]\n/* try\n*/ out[0] = 1;\n}",
    "words of other languages are names": BODY
    + "int local = 1, global = 2, pipe = 3;\nout[0] = local + global + pipe;\n}",
    "pointers with a space": BODY
    + "const device float* p = x + 1;\nthread float v[2];\nthread float* q = v;\nq[0] = p[0];\n}",
    "spaces of functions": "float f(const device float* p) { return p[0]; }\nfloat f(thread float& v) { return v; }\n"
    + FRAME
    + "float v = f(x);\nout[0] = f(v);\n}",
    "threadgroup variables": BODY
    + "threadgroup float tile[2][32], total;\nthreadgroup atomic_uint count;\nthreadgroup float* row = tile[1];\n"
    "row[3] = 1;\ntotal = row[3];\nthreadgroup_barrier(mem_flags::mem_threadgroup);\nout[0] = total;\n}",
    "constants outside": "constant float table[2] = {0.5, 1};\nconstant constexpr int n = 2;\n"
    + FRAME
    + "for (int i = 0; i < n; i++) out[i] = table[i];\n}",
    "vectors": BODY
    + "float4 v = float4(1.0, float2(2), 3);\nv.xy = v.zw * 2;\nout[0] = dot(v.xyz, float3(1)) + v.r;\n}",
    "an explicit instantiation": "template <typename T, int N>\n"
    "[[kernel]] void f(device T* out [[buffer(0)]]) { out[N] = T(1); }\n"
    'template [[host_name("f_half")]] [[kernel]] decltype(f<half, 3>) f<half, 3>;\n',
    "kernel as a word": "kernel void f(\n  device float* out [[buffer(0)]],\n  uint i [[thread_position_in_grid]]) {\n"
    "  out[i] = 1;\n}",
    "functions of simdgroups": BODY
    + "float s = simd_sum(x[0]) + simd_shuffle_down(scale, 1);\nif (simd_is_first()) out[0] = s;\n}",
    "an early exit": BODY
    + "if (thread_position_in_grid.x > 3) return;\nout[0] = metal::precise::exp(x[0]) + fast::sin(scale);\n}",
}


@pytest.mark.parametrize("case", RIGHT)
def test_right_programs_pass(case):
    assert check_metal(RIGHT[case]) == []


# The first and the last instance of each kernel differ in dtypes, sizes and switches.
ENDS = {name: [i for i in instances(dialect="metal") if i.kernel.name == name] for name in KERNELS}


@pytest.mark.every(3)
@pytest.mark.parametrize("end", [0, -1], ids=["first", "last"])
@pytest.mark.parametrize("name", [name for name, ends in ENDS.items() if ends])
def test_every_kernel_of_the_project_is_metal(name, end):
    """Those whose body is HIP, for instructions that Metal lacks, are left out."""
    instance = ENDS[name][end]
    assert check_metal(instance.kernel.text("metal", instance.template)) == []


FORMS = [
    Form((Operand(np.dtype(np.float16), 2, False), Operand(np.dtype(np.float32), 0, True)), (hiprt.bfloat16,)),
    Form((Operand(np.dtype(np.complex64), 3, True), Operand(np.dtype(np.int64), 1, False)), (np.dtype(np.complex64),)),
]


@pytest.mark.parametrize("form", FORMS, ids=["device", "constant"])
def test_generated_text_of_a_body_passes(form):
    """The body has inputs in both address spaces, strided access, a template, and the names that MLX defines."""
    body = Body(
        "strided",
        ("a", "b"),
        ("out",),
        "uint i = thread_position_in_grid.x;\n"
        "auto place = elem_to_loc(i, a_shape, a_strides, a_ndim);\n"
        "T v = T(a[place]);\n"
        "LoopedElemToLoc<2, size_t> walk(a_ndim);\nwalk.next(a_shape, a_strides);\n"
        "out[i] = v + T(ceildiv(int(threads_per_grid.x), 4) + int(walk.location()));\n",
        "template <typename U> U twice(U v) { return v + v; }\n",
    )
    form = Form(form.inputs, form.outputs, (("T", form.outputs[0]),))
    assert check_metal(body.metal(form)) == []


def test_the_line_of_a_header_is_named():
    problems = check_metal("float f() { return 1; }\nfloat g() { return h(); }\n" + FRAME + "}", "mine.metal")
    assert [(p.file, p.line) for p in problems] == [("mine.metal", 2)]
    assert str(problems[0]).startswith("mine.metal:2: ")
