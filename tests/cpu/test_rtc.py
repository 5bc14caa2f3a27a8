"""hiprtc: what it makes of programs, the lowered names, and the logs."""

import threading

import numpy as np
import pytest
from helpers.hip_calls import E, error, ok
from helpers.rtc import RESULT, Program, build, text_of
from rocm.bindings import hip, hiprtc

SAXPY = """
extern "C" __global__ void saxpy(float a, const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
"""
WRITE = 'extern "C" __global__ void write(int* out) {{ out[threadIdx.x] = {}; }}'


def value_of(expression, prologue="", **how):
    """Return the integer that a device expression has for thread 0."""
    out = np.zeros(1, np.int32)
    Program(prologue + "\n" + WRITE.format(expression), **how).run("write", 1, 1, out)
    return out[0]


def test_version_is_that_of_hip():
    major, minor = ok(hiprtc.hiprtcVersion())
    assert (major, minor) == (7, 15)


def test_error_strings():
    for member in RESULT:
        assert str(hiprtc.hiprtcGetErrorString(member)[1]) == member.name


def test_saxpy_runs():
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    Program(SAXPY).run("saxpy", 4, 256, np.float32(2), x, y, np.int32(1000))
    np.testing.assert_array_equal(y, 2 * np.arange(1000) + 1)


def test_an_error_names_the_file_and_the_line():
    made = build("int a;\nint b;\n__global__ void k(int* p) { p[0] = missing; }\n", name="my kernel.hip")
    assert made.status == RESULT.HIPRTC_ERROR_COMPILATION
    assert "my kernel.hip:3:" in made.log
    assert "error" in made.log
    assert "missing" in made.log
    assert "__hiprt" not in made.log
    assert "/tmp" not in made.log


def test_the_column_is_that_of_the_users_text():
    made = build('extern "C" __global__ void k(int* p) { p[0] = missing; }')
    assert "k.hip:1:47: error" in made.log


def test_an_error_in_a_header_names_the_header():
    headers = {"sub/tool.h": "#pragma once\nstatic int broken = nothing;\n"}
    made = build('#include "sub/tool.h"\n__global__ void k() {}', headers=headers)
    assert "sub/tool.h:2:" in made.log
    assert "/tmp" not in made.log


def test_a_warning_is_in_the_log_of_a_good_program():
    made = build("__global__ void k(int* p) { int unused = 3; p[0] = 1; }", options=["-Wall"])
    assert made.status == RESULT.HIPRTC_SUCCESS
    assert "k.hip:1:" in made.log
    assert "unused" in made.log
    assert build("__global__ void k(int* p) { int unused = 3; p[0] = 1; }", options=["-Wall", "-w"]).log == ""


def test_a_clean_program_has_an_empty_log_whatever_the_warnings():
    assert build(SAXPY, options=["-Wall", "-Wextra", "-Wpedantic"]).log == ""


def test_headers_by_quotes_and_by_brackets():
    headers = {
        "one.h": "#define ONE 1",
        "deep/two.h": '#include "three.h"\n#define TWO 2',
        "deep/three.h": "#define THREE 3",
    }
    assert value_of("100 * ONE + 10 * TWO + THREE", '#include "one.h"\n#include <deep/two.h>', headers=headers) == 123


def test_a_header_name_must_stay_inside():
    for name in (b"../out.h", b"/out.h", b"a/../../out.h"):
        result = hiprtc.hiprtcCreateProgram(b"", b"k.hip", 1, [b""], [name])
        assert error(result) == RESULT.HIPRTC_ERROR_INVALID_INPUT


def test_headers_on_disk(tmp_path):
    (tmp_path / "disk.h").write_text("#define DISK 5\n__device__ inline int twice(int x) { return 2 * x; }")
    assert value_of("twice(DISK)", "#include <disk.h>", options=[f"-I{tmp_path}"]) == 10
    assert value_of("twice(DISK)", "#include <disk.h>", options=["-I", str(tmp_path)]) == 10
    assert value_of("twice(DISK)", options=["-include", str(tmp_path / "disk.h")]) == 10


def test_kernels_that_a_disk_header_defines(tmp_path):
    (tmp_path / "disk.h").write_text(WRITE.format(7))
    out = np.zeros(1, np.int32)
    Program('#include "disk.h"', options=[f"-I{tmp_path}"]).run("write", 1, 1, out)
    assert out[0] == 7


@pytest.mark.parametrize("options", [["-DN=4"], ["-D", "N=4"], ["-DN=3", "-UN", "-DN=4"], ["--define-macro=N=4"]])
def test_definitions(options):
    assert value_of("N", options=options) == 4


@pytest.mark.parametrize(
    "option",
    [
        "--std=c++17",
        "-std=c++20",
        "-std=gnu++14",
        "-std=c++11",
        "-O0",
        "-O1",
        "-O2",
        "-O3",
        "-ffast-math",
        "-fno-fast-math",
        "-ffp-contract=off",
        "--gpu-architecture=gfx1100",
        "--offload-arch=gfx942",
        "-Wall",
        "-w",
        "-g",
        "-fno-signed-zeros",
        "-fhonor-nans",
        "-fno-honor-infinities",
        "-fslp-vectorize",
        "-munsafe-fp-atomics",
        "-fno-gpu-flush-denormals-to-zero",
        "-mllvm -amdgpu-early-inline-all=true",
    ],
)
def test_known_options(option):
    assert value_of("40 + 2", options=option.split()) == 42


@pytest.mark.parametrize(("option", "words"), [("-ffp-contract=on", "@llvm.fmuladd.f32"), ("-ffast-math", "fmul fast")])
def test_the_code_that_llvm_is_to_print_is_on_standard_error(option, words, capfd):
    """It is there for a program that is compiled already, too."""
    source = 'extern "C" __global__ void k(float* a, float* b) { *a = *a * *b + 1; }'
    for _ in range(2):
        assert build(source, options=[option, "-mllvm", "-print-after=constmerge"]).status == 0
        assert words in capfd.readouterr().err
    assert build(source, options=[option]).status == 0
    assert capfd.readouterr().err == ""


def test_not_a_number_is_told_under_fast_mathematics_that_honours_it():
    source = 'extern "C" __global__ void k(const float* x, int* out) { out[0] = isnan(x[0]); }'
    out = np.zeros(1, np.int32)
    Program(source, options=["-ffast-math", "-fhonor-nans"]).run("k", 1, 1, np.array([np.nan], np.float32), out)
    assert out[0] == 1


def test_the_standard_is_the_one_asked_for():
    for year in (14, 17, 20):
        assert value_of("__cplusplus / 100", options=[f"--std=c++{year}"]) == {14: 2014, 17: 2017, 20: 2020}[year]


@pytest.mark.parametrize(
    "option",
    ["--no-such-option", "-fno-such", "-mllvm", "--gpu-max-threads-per-block=x", "-Wl,-rpath,/x", "x.cpp", "-o", ""],
)
def test_an_unknown_option_is_refused_by_name(option):
    made = build(SAXPY, options=["-DA=1", option])
    assert made.status == RESULT.HIPRTC_ERROR_INVALID_OPTION
    assert f"'{option}'" in made.log


def test_macros_that_programs_branch_on():
    prologue = """
#if !defined(__HIPCC_RTC__) || !defined(__HIP_PLATFORM_AMD__) || !defined(__HIP_DEVICE_COMPILE__) || !__HIPRT_CPU__
#error a macro is missing
#endif"""
    assert value_of("HIP_VERSION / 100000", prologue) == 715


def test_the_c_headers_that_a_device_has():
    prologue = "#include <stdint.h>\n#include <stddef.h>\n#include <limits.h>\n#include <float.h>\n#include <math.h>"
    expression = "INT_MAX == INT32_MAX && UINT64_MAX == ULLONG_MAX && DBL_MAX > FLT_MAX"
    expression += " && sizeof(ptrdiff_t) == sizeof(size_t)"
    assert value_of(expression, prologue, options=["-Wall", "-Werror"]) == 1


def test_the_device_heap():
    source = """
struct Node { int value; Node* next; };
extern "C" __global__ void k(int* out) {
  Node* list = nullptr;
  for (int i = 0; i <= int(threadIdx.x); ++i) list = new Node{i, list};
  int* sum = static_cast<int*>(malloc(sizeof(int)));
  *sum = 0;
  while (list) { Node* next = list->next; *sum += list->value; delete list; list = next; }
  out[threadIdx.x] = *sum;
  free(sum);
}"""
    out = np.zeros(40, np.int32)
    Program(source).run("k", 1, 40, out)
    np.testing.assert_array_equal(out, np.cumsum(np.arange(40)))


def test_too_much_shared_memory_is_a_compile_error():
    body = "__shared__ float s[16385]; s[threadIdx.x] = 1; p[0] = s[3];"
    made = build(f'extern "C" __global__ void big(float* p) {{ {body} }}')
    assert made.status == RESULT.HIPRTC_ERROR_COMPILATION
    assert "big has 65540 bytes of shared memory, the limit is 65536" in made.log


def test_a_function_that_is_not_there_is_a_compile_error():
    made = build('__device__ void missing(int*);\nextern "C" __global__ void k(int* p) { missing(p); }')
    assert made.status == RESULT.HIPRTC_ERROR_COMPILATION
    assert "missing" in made.log


def test_templates_by_name_expression():
    source = """
template <class T> __global__ void fill(T* p, T v) { p[threadIdx.x] = v; }
template <class T, int N> __global__ void times(T* p) { p[threadIdx.x] *= N; }
namespace a { namespace b { template <int N> __global__ void plus(int* p) { p[threadIdx.x] += N; } } }
"""
    names = ["fill<float>", "&fill<int>", "times<int, 4>", "a::b::plus<-3>"]
    program = Program(source, expressions=names)
    assert program.built.lowered["fill<float>"] == "_Z4fillIfEvPT_S0_"
    values = np.zeros(8, np.int32)
    program.run("&fill<int>", 1, 8, values, np.int32(5))
    program.run("times<int, 4>", 1, 8, values)
    program.run("a::b::plus<-3>", 1, 8, values)
    np.testing.assert_array_equal(values, 17)
    floats = np.zeros(8, np.float32)
    program.run("fill<float>", 1, 8, floats, np.float32(0.5))
    np.testing.assert_array_equal(floats, 0.5)


def test_names_of_plain_kernels():
    source = """
extern "C" __global__ void plain(int* p) { p[0] = 1; }
__global__ void mangled(int* p) { p[0] = 2; }
namespace n { __global__ void inner(int* p) { p[0] = 3; } }
"""
    program = Program(source, expressions=["plain", "mangled", "n::inner"])
    assert program.built.lowered == {"plain": "plain", "mangled": "_Z7mangledPi", "n::inner": "_ZN1n5innerEPi"}
    for name, value in (("plain", 1), ("_Z7mangledPi", 2), ("n::inner", 3)):
        out = np.zeros(1, np.int32)
        program.run(name, 1, 1, out)
        assert out[0] == value
    assert error(hip.hipModuleGetFunction(program.module, b"mangled")) == E.hipErrorNotFound


def test_variables_by_name_expression():
    source = """
namespace n { __device__ int counter = 3; }
__constant__ float table[4];
__global__ void k(float* p) { p[0] = table[1] + n::counter; }
"""
    program = Program(source, expressions=["&n::counter", "&table"])
    address, size = ok(hip.hipModuleGetGlobal(program.module, program.built.lowered["&table"].encode()))
    assert size == 16
    ok(hip.hipMemcpy(address, np.array([1, 2.5, 3, 4], np.float32), 16, hip.hipMemcpyKind.hipMemcpyHostToDevice))
    out = np.zeros(1, np.float32)
    program.run("_Z1kPf", 1, 1, out)
    assert out[0] == 5.5
    assert ok(hip.hipModuleGetGlobal(program.module, program.built.lowered["&n::counter"].encode()))[1] == 4


def test_a_bad_name_expression_is_a_compile_error():
    made = build(SAXPY, expressions=["no_such<int>"])
    assert made.status == RESULT.HIPRTC_ERROR_COMPILATION
    assert "name expression 'no_such<int>'" in made.log


def test_the_order_of_calls_is_checked():
    program = ok(hiprtc.hiprtcCreateProgram(SAXPY.encode(), b"k.hip", 0, None, None))
    ok(hiprtc.hiprtcAddNameExpression(program, b"saxpy"))
    before = RESULT.HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION
    assert error(hiprtc.hiprtcGetLoweredName(program, b"saxpy")) == before
    assert error(hiprtc.hiprtcGetCodeSize(program)) == RESULT.HIPRTC_ERROR_INVALID_PROGRAM
    ok(hiprtc.hiprtcCompileProgram(program, 0, None))
    after = RESULT.HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION
    assert error(hiprtc.hiprtcAddNameExpression(program, b"other")) == after
    assert error(hiprtc.hiprtcGetLoweredName(program, b"other")) == RESULT.HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID
    assert error(hiprtc.hiprtcGetBitcodeSize(program)) == RESULT.HIPRTC_ERROR_INVALID_PROGRAM
    ok(hiprtc.hiprtcDestroyProgram(program.createRef()))
    assert error(hiprtc.hiprtcCompileProgram(program, 0, None)) == RESULT.HIPRTC_ERROR_INVALID_PROGRAM


def test_a_program_can_be_compiled_again_with_other_options():
    program = ok(hiprtc.hiprtcCreateProgram(WRITE.format("N").encode(), b"k.hip", 0, None, None))
    assert error(hiprtc.hiprtcCompileProgram(program, 0, None)) == RESULT.HIPRTC_ERROR_COMPILATION
    assert "N" in text_of(program)
    ok(hiprtc.hiprtcCompileProgram(program, 1, [b"-DN=1"]))
    assert text_of(program) == ""
    ok(hiprtc.hiprtcDestroyProgram(program.createRef()))


def test_kernels_in_unusual_dress():
    source = """
#define KERNEL(name, value) extern "C" __global__ void name(int* p) { p[0] = value; }
KERNEL(by_macro, 1)
#if 0
extern "C" __global__ void absent(int* p) { this is not C++ }
#else
extern "C" __global__ void present(int* p) { p[0] = 2; }
#endif
extern "C" {
__global__ void __launch_bounds__(64, 2) in_block(int* p);
__global__ void in_block(int* p) { p[0] = 3; }
}
/* __global__ void commented(int* p) {} */ // __global__ void also(int* p) {}
const char* text = "__global__ void quoted(int* p) {";
static __global__ void hidden(int* p) { p[0] = 4; }
namespace { __global__ void anonymous(int* p) { p[0] = 5; } }
inline namespace v1 { __attribute__((unused)) __global__ static void inner(int* p) { p[0] = 6; } }
__launch_bounds__(128) __global__ auto trailing(int* p) -> void { p[0] = 7; }
template <class T> __global__ void generic(T* p) { p[0] = T(8); }
template __global__ void generic<int>(int* p);
template <> __global__ void generic<short>(short* p) { p[0] = 9; }
__global__ void overloaded(int* p) { p[0] = 10; }
__global__ void overloaded(int* p, float) { p[0] = 11; }
"""
    program = Program(source, expressions=["hidden", "anonymous", "inner", "trailing", "generic<short>"])
    expected = {
        "by_macro": 1,
        "present": 2,
        "in_block": 3,
        "hidden": 4,
        "anonymous": 5,
        "inner": 6,
        "trailing": 7,
        "_Z7genericIiEvPT_": 8,
        "_Z10overloadedPi": 10,
    }
    for name, value in expected.items():
        out = np.zeros(1, np.int32)
        program.run(name, 1, 1, out)
        assert out[0] == value, name
    out = np.zeros(1, np.int16)
    program.run("generic<short>", 1, 1, out)
    assert out[0] == 9
    out = np.zeros(1, np.int32)
    program.run("_Z10overloadedPif", 1, 1, out, np.float32(0))
    assert out[0] == 11


def test_index_variables_inside_lambdas_and_local_types():
    source = """
extern "C" __global__ void k(int* p) {
  auto plain = [](int x) { return x + int(threadIdx.x); };
  struct Local { __device__ static int id() { return blockIdx.x * blockDim.x + threadIdx.x; } };
  p[Local::id()] = plain(100 * blockIdx.x);
}"""
    out = np.zeros(16, np.int32)
    Program(source).run("k", 2, 8, out)
    np.testing.assert_array_equal(out, [100 * b + t for b in range(2) for t in range(8)])


def test_launch_bounds_limit_the_block():
    source = """
namespace n {
constexpr int kLanes = 32;
__global__ void __launch_bounds__(kLanes * 2) k(int* p) { p[threadIdx.x] = 1; }
}
"""
    program = Program(source, expressions=["n::k"])
    function = program.function("n::k")
    attribute = hip.hipFunction_attribute.HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
    assert ok(hip.hipFuncGetAttribute(attribute, function)) == 64
    out = np.zeros(65, np.int32)
    program.run("n::k", 1, 64, out)
    assert out.sum() == 64
    pointers = np.array([out.ctypes.data], np.uint64)
    assert error(hip.hipModuleLaunchKernel(function, 1, 1, 1, 65, 1, 1, 0, None, pointers, None)) != E.hipSuccess


def test_an_option_bounds_the_blocks_of_kernels_that_do_not():
    source = """
template <class T> __global__ void of(T* p) { p[threadIdx.x] = 1; }
extern "C" __global__ void plain(int* p) { p[threadIdx.x] = 1; }
extern "C" __global__ void __launch_bounds__(256) bound(int* p) { p[threadIdx.x] = 1; }
"""
    program = Program(source, options=["--gpu-max-threads-per-block=96"], expressions=["of<int>"])
    attribute = hip.hipFunction_attribute.HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
    most = [ok(hip.hipFuncGetAttribute(attribute, program.function(name))) for name in ("of<int>", "plain", "bound")]
    assert most == [96, 96, 256]


def test_parameters_of_many_kinds():
    source = """
struct Shape { int rows; char flag; double scale; short tail[3]; };
extern "C" __global__ void k(char a, double b, short c, Shape s, float4 v, const int* p, bool d, unsigned char e,
                             double* out) {
  double all[] = {double(a), b, double(c), double(s.rows), double(s.flag), s.scale, double(s.tail[2]), v.x, v.w,
                  double(p[1]), double(d), double(e)};
  for (int i = 0; i < 12; ++i) out[i] = all[i];
}"""
    shape = np.zeros((), np.dtype([("rows", "i4"), ("flag", "i1"), ("scale", "f8"), ("tail", "i2", 3)], align=True))
    shape["rows"], shape["flag"], shape["scale"], shape["tail"] = 5, 6, 7.5, [0, 0, 8]
    vector = np.array((9, 0, 0, 10), np.dtype([(n, "f4") for n in "xyzw"]))
    out = np.zeros(12)
    pointed = np.array([0, 11], np.int32)
    # Structures go by value as zero-dimensional arrays of bytes would be copied: void scalars are passed as they are.
    Program(source).run(
        "k",
        1,
        1,
        np.int8(1),
        np.float64(2.5),
        np.int16(3),
        shape[()],
        vector[()],
        pointed,
        np.bool_(True),
        np.uint8(12),
        out,
    )
    np.testing.assert_array_equal(out, [1, 2.5, 3, 5, 6, 7.5, 8, 9, 10, 11, 1, 12])


def test_programs_compile_in_parallel():
    results = {}

    def work(i):
        results[i] = value_of(f"{i} * {i}", f"// program {i} of several")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {i: i * i for i in range(6)}


@pytest.mark.parametrize(
    ("image", "status"),
    [
        (b"not a code object at all" * 8, E.hipErrorInvalidImage),
        (b"\x7fELF" + bytes(200), E.hipErrorInvalidImage),
        (b"__CLANG_OFFLOAD_BUNDLE__" + bytes(100), E.hipErrorNoBinaryForGpu),
        (b"CCOB" + bytes(100), E.hipErrorNoBinaryForGpu),
        (b"//\n// Generated by LLVM NVPTX Back-End\n//\n.version 7.0\n", E.hipErrorNoBinaryForGpu),
        (b"\x7fELF\x02\x01\x01\x40\x02" + bytes(7) + b"\x03\x00\xe0\x00" + bytes(100), E.hipErrorNoBinaryForGpu),
    ],
    ids=["text", "other ELF", "bundle", "compressed bundle", "PTX", "AMD ELF"],
)
def test_foreign_images(image, status):
    assert error(hip.hipModuleLoadData(image)) == status
