"""Programs that ``hiprt hipcc`` makes: host code and kernels in one file, run on the CPU device."""

import os
import re
import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not shutil.which("c++"), reason="programs are linked by the system's C++ compiler")

BEYOND = r"""
#include <hip/hip_runtime.h>
__global__ void past(float *p, int n) {
  const int i = threadIdx.x;
  if (i <= n) p[i] = 1;
}
int main() {
  float *p;
  if (hipMalloc(&p, 64 * sizeof(float))) return 1;
  past<<<1, 128>>>(p, 64);
  return hipDeviceSynchronize();
}
"""


@pytest.fixture
def hipcc(tmp_path, root):
    """Run ``hiprt hipcc`` in a folder of its own on files that are written there; return the finished process."""

    def run(*words, **files):
        for name, text in files.items():
            (tmp_path / name.replace("__", ".")).write_text(text)
        command = [sys.executable, "-m", "hiprt", "hipcc", *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        # The linker warns of functions in a sanitizer's library, which the device is linked with under sanitizers.
        lines = done.stderr.splitlines(keepends=True)
        done.stderr = "".join(line for line in lines if not re.search(r"lib[atu]b?san\.so.* is dangerous", line))
        return done

    return run


@pytest.fixture
def program(tmp_path):
    """Run a program in the test's folder; return the finished process."""
    return lambda *words: subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)


def test_language_and_entry_points(hipcc, program, root):
    """Kernels of all forms, variables of all kinds, symbols, launches and queries by the host's address."""
    made = hipcc("-O1", str(root / "tests" / "cpu" / "language.hip"), "-o", "language")
    assert (made.returncode, made.stderr) == (0, "")
    done = program("./language")
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stderr


def test_headers_beside_the_runtime(hipcc, program):
    """Complex numbers, mathematical constants, channels by type, AMD's launch with events, HIP 6's form of a fill."""
    text = r"""
#include <hip/hip_runtime.h>
#include <hip/hip_complex.h>
#include <hip/hip_ext.h>
#include <hip/hip_math_constants.h>
#include <cstdio>
#include <hip/channel_descriptor.h>
__global__ void divide(hipDoubleComplex *out, hipDoubleComplex a, double scale) {
  *out = hipCmul(hipCdiv(a, make_hipDoubleComplex(3, -4)), make_hipDoubleComplex(scale, 0));
}
int main() {
  hipDoubleComplex *p, got;
  hipEvent_t start, stop;
  float ms = -1;
  if (hipMalloc(&p, sizeof got) || hipEventCreate(&start) || hipEventCreate(&stop)) return 1;
  hipExtLaunchKernelGGL(divide, dim3(1), dim3(1), 0, nullptr, start, stop, 0, p, make_hipDoubleComplex(11, 2), 2);
  if (hipMemcpy(&got, p, sizeof got, hipMemcpyDeviceToHost) || hipEventElapsedTime(&ms, start, stop)) return 2;
  const hipFloatComplex z = hipCfmaf(make_hipComplex(1, 2), make_hipComplex(3, 4), make_hipComplex(5, 6));
  const hipChannelFormatDesc c = hipCreateChannelDesc<ushort2>(), f = hipCreateChannelDesc<float4>();
  std::printf("%g %g %g %g %g\n", got.x, got.y, z.x, z.y, hipCabs(make_hipDoubleComplex(3, 4)));
  std::printf("%d%d%d%d %d %d%d%d%d %d\n", c.x, c.y, c.z, c.w, c.f, f.x, f.y, f.z, f.w, f.f);
  std::printf("%d\n", ms >= 0 && HIP_PI == 3.141592653589793 && HIP_PIO2_F == float(HIP_PIO2) && HIP_NAN != HIP_NAN);
  hipGraph_t graph;
  hipGraphNode_t fill;
  hipGraphExec_t exec;
  int *q, row[6] = {};
  if (hipMalloc(&q, sizeof row) || hipMemset(q, 0, sizeof row) || hipGraphCreate(&graph, 0)) return 3;
  HIP_MEMSET_NODE_PARAMS form = {q, 12, 7, 4, 2, 2};
  const auto add = hipDrvGraphAddMemsetNode;
  hipGraph_t other;
  if (hipGraphCreate(&other, 0) || add(&fill, other, nullptr, 0, &form, nullptr)) return 9;
#undef hipDrvGraphAddMemsetNode
  if (hipDrvGraphAddMemsetNode(&fill, graph, nullptr, 0, &form, nullptr)) return 4;
  if (hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0)) return 8;
  if (hipDrvGraphAddMemsetNode(&fill, graph, nullptr, 0, nullptr, nullptr) != hipErrorInvalidValue) return 7;
  form.value = 9;
  if (hipDrvGraphExecMemsetNodeSetParams(exec, fill, &form, nullptr) || hipGraphLaunch(exec, nullptr)) return 5;
  if (hipMemcpy(row, q, sizeof row, hipMemcpyDeviceToHost)) return 6;
  std::printf("%d%d%d%d%d%d\n", row[0], row[1], row[2], row[3], row[4], row[5]);
}
"""
    assert hipcc("many.hip", "-DHIPRT_HIP6", "-o", "many", many__hip=text).returncode == 0
    assert program("./many").stdout == "2 4 0 16 5\n161600 1 32323232 2\n1\n990990\n"


def test_textures_are_named_when_they_are_missing(hipcc, program):
    """A program that makes a texture does not link, one that reads it does not compile; both are told the function."""
    text = """#include <hip/hip_runtime.h>
int main() {
  hipTextureObject_t texture;
  hipResourceDesc resource{};
  hipTextureDesc desc{};
  resource.resType = hipResourceTypeLinear;
  desc.addressMode[0] = hipAddressModeClamp;
  return hipCreateTextureObject(&texture, &resource, &desc, nullptr);
}
"""
    made = hipcc("texture.hip", "-o", "texture", texture__hip=text)
    assert made.returncode != 0
    assert "undefined reference to `hipCreateTextureObject'" in made.stderr
    text = """#include <hip/hip_runtime.h>
__global__ void read(hipTextureObject_t texture, float *out) { out[0] = tex2D<float>(texture, 1, 2); }
"""
    made = hipcc("-c", "reading.hip", reading__hip=text)
    assert made.returncode != 0
    assert "reading.hip:2:" in made.stderr
    assert "'float tex2D<float>" in made.stderr
    text = """#include <hip/hip_runtime.h>
texture<float, 2, hipReadModeElementType> picture;
__global__ void mark(float *out) { out[0] = 1; }
#ifdef READ
__global__ void read(float *out) { out[0] = tex2D(picture, 1, 2); }
#endif
int main() {
  picture.filterMode = hipFilterModePoint;
  float *p;
  if (hipMalloc(&p, 4)) return 1;
  mark<<<1, 1>>>(p);
  return hipDeviceSynchronize();
}
"""
    made = hipcc("declared.hip", "-o", "declared", declared__hip=text)
    assert (made.returncode, made.stderr) == (0, "")
    assert program("./declared").returncode == 0, "a reference that nothing reads does no harm"
    made = hipcc("-c", "-DREAD", "declared.hip")
    assert made.returncode != 0
    assert "declared.hip:5:" in made.stderr
    assert "'tex2D'" in made.stderr


def test_files_and_flags(hipcc, program):
    """Sources are compiled with their flags and linked with libraries; targets are passed over with a word."""
    header = "#pragma once\nstatic inline __device__ int plus(int x) { return x + STEP; }\n"
    one = """#include <hip/hip_runtime.h>
#include "shared.h"
__global__ void one(int *p) { *p = plus(*p); }
void run_one(int *p) { one<<<1, 1>>>(p); }
"""
    two = """#include <hip/hip_runtime.h>
#include <cstdio>
#include "shared.h"
extern "C" int from_c(int);
void run_one(int *p);
static __global__ void two(int *p) { *p = 10 * plus(*p); }
int main() {
  int *p, got = 0;
  if (hipMalloc(&p, 4) || hipMemset(p, 0, 4)) return 1;
  run_one(p);
  two<<<1, 1>>>(p);
  if (hipMemcpy(&got, p, 4, hipMemcpyDeviceToHost)) return 1;
  std::printf("%d\\n", from_c(got));
}
"""
    c = "int from_c(int x) { return x + 1; }\n"
    files = {"c__c": c, "shared__h": header, "one__hip": one, "two__cpp": two}
    shared = hipcc("-shared", "-fPIC", "c.c", "-o", "libc_part.so", **files)
    assert shared.returncode == 0, shared.stderr
    flags = ("-DSTEP=4", "-O0", "-g", "-std=c++17", "-I", ".", "--offload-arch=gfx942")
    first = hipcc("-c", *flags, "one.hip", "-o", "one.o")
    assert first.returncode == 0, first.stderr
    assert "no use for --offload-arch=gfx942" in first.stderr
    flags = ("-DSTEP=4", "-O0", "--offload-arch=hiprt-cpu")  # as CMake gives it
    made = hipcc(*flags, "one.o", "two.cpp", "-L.", "-lc_part", "-lhiprtc", "-Wl,-rpath,$ORIGIN", "-o", "both")
    assert (made.returncode, made.stderr) == (0, "")
    assert program("./both").stdout == "81\n"


def test_the_runtime_brings_what_programs_do_not_include(hipcc, program):
    """As HIP's header does: assertions in kernels and host code, and common parts of the standard library."""
    text = """#include <hip/hip_runtime.h>
__global__ void k(int *p) {
  assert(threadIdx.x < 3);
  p[threadIdx.x] = std::max<int>(threadIdx.x, std::numeric_limits<int8_t>::min());
}
int main() {
  std::tuple<int *, uint32_t> out{nullptr, 3};
  assert(hipMalloc(&std::get<0>(out), 16) == hipSuccess);
  k<<<1, std::get<1>(out)>>>(std::get<0>(out));
  int told[3];
  assert(hipMemcpy(told, std::get<0>(out), 12, hipMemcpyDeviceToHost) == hipSuccess);
  printf("%d\\n", std::min(told[2], INT_MAX));
  k<<<1, 4>>>(std::get<0>(out));
  return hipDeviceSynchronize();
}
"""
    made = hipcc("bare.hip", "-o", "bare", bare__hip=text)
    assert (made.returncode, made.stderr) == (0, "")
    done = program("./bare")
    assert done.stdout == "2\n"
    assert "bare.hip:3: void k(int *): assertion 'threadIdx.x < 3' failed" in done.stderr


def test_macros_of_one_letter_are_the_programs_own(hipcc, program):
    """Programs are given their sizes as ``-DN=1024``; T and U are names of HIP's own headers too."""
    names = ("complex", "fp16", "bf16", "ext", "cooperative_groups", "math_constants")
    text = "".join(f"#include <hip/hip_{name}.h>\n" for name in ("runtime", *names))
    text += """__global__ void k(int *p) { p[threadIdx.x] = A + N; }
int main() {
  int *p, told[N];
  if (hipMalloc(&p, sizeof told)) return 1;
  k<<<1, N>>>(p);
  if (hipMemcpy(told, p, sizeof told, hipMemcpyDeviceToHost)) return 1;
  printf("%d\\n", told[N - 1]);
}
"""
    letters = "ABCDEFGHIJKLMNOPQRSVWXYZ"
    made = hipcc(
        *(f"-D{letter}={at + 2}" for at, letter in enumerate(letters)), "sizes.hip", "-o", "sizes", sizes__hip=text
    )
    assert (made.returncode, made.stderr) == (0, "")
    assert program("./sizes").stdout == "17\n"
    assert program(sys.executable, "-m", "hiprt", "check", "./sizes").returncode == 0


def test_errors_name_file_and_line(hipcc):
    """A mistake in a kernel is told as the host's compiler tells it, and device code of another file by its name."""
    wrong = "#include <hip/hip_runtime.h>\n\n__global__ void k(float *p) { p[0] = missing; }\n"
    made = hipcc("-c", "wrong.hip", wrong__hip=wrong)
    assert made.returncode != 0
    assert "wrong.hip:3:38: error: use of undeclared identifier 'missing'" in made.stderr
    apart = "#include <hip/hip_runtime.h>\n__device__ int far(int);\n__global__ void k(int *p) { p[0] = far(3); }\n"
    made = hipcc("-c", "apart.hip", apart__hip=apart)
    assert made.returncode != 0
    assert "apart.hip: error: device code uses far(int), which this file does not define" in made.stderr
    refused = hipcc("-fgpu-rdc", "-c", "apart.hip")
    assert refused.returncode != 0
    assert "links no device code" in refused.stderr


def test_a_program_is_checked(hipcc, program, monkeypatch):
    """hiprt check compiles the device part again and names the kernel and its line.

    Kernels that cannot be compiled again run all the same, so that only a finding says that nothing was looked for.
    """
    assert hipcc("past.hip", "-o", "past", past__hip=BEYOND).returncode == 0
    done = program(sys.executable, "-m", "hiprt", "check", "./past")
    assert done.returncode != 0
    assert "past" in done.stderr
    assert "past.hip:5" in done.stderr
    assert "main (past+0x" in done.stderr  # the function that allocated the buffer
    monkeypatch.setenv("HIPRT_CPU_COMPILER", "/bin/false")
    done = program(sys.executable, "-m", "hiprt", "check", "./past")
    assert done.returncode == 3
    assert "hiprt check: unchecked: the kernels of past.hip, which cannot be compiled with checks: " in done.stderr
    assert done.stderr.endswith("hiprt check: 1 finding\n")


def test_code_objects_are_modules(hipcc, python, tmp_path):
    """What --genco writes is loaded by hipModuleLoad, with its kernels and variables.

    hipModuleGetGlobal gives the memory of a managed one, which both sides read and write, with its first value.
    """
    text = """#include <hip/hip_runtime.h>
__device__ int start = 40;
__managed__ int counts[3] = {5, 6, 7};
extern "C" __global__ void add(int *p, int x) { *p = start + x; }
extern "C" __global__ void count(int x) { counts[threadIdx.x] += x; }
"""
    made = hipcc("--genco", "add.hip", "-o", "add.co", add__hip=text)
    assert (made.returncode, made.stderr) == (0, "")
    out = python(f"""
import ctypes
lib = ctypes.CDLL(sys.argv[1])
module, function, p, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
assert lib.hipModuleLoad(ctypes.byref(module), {os.fsencode(tmp_path / "add.co")!r}) == 0
assert lib.hipModuleGetFunction(ctypes.byref(function), module, b"add") == 0
assert lib.hipMalloc(ctypes.byref(p), ctypes.c_size_t(4)) == 0
x, got = ctypes.c_int(2), ctypes.c_int()
args = (ctypes.c_void_p * 2)(ctypes.addressof(p), ctypes.addressof(x))
assert lib.hipModuleLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, args, None) == 0
assert lib.hipMemcpy(ctypes.byref(got), p, ctypes.c_size_t(4), 2) == 0
print(got.value)
assert lib.hipModuleGetGlobal(ctypes.byref(p), ctypes.byref(size), module, b"counts") == 0
assert lib.hipModuleGetFunction(ctypes.byref(function), module, b"count") == 0
counts = (ctypes.c_int * 3).from_address(p.value)
counts[2] += 1
x = ctypes.c_int(100)
args = (ctypes.c_void_p * 1)(ctypes.addressof(x))
assert lib.hipModuleLaunchKernel(function, 1, 1, 1, 3, 1, 1, 0, None, args, None) == 0
assert lib.hipDeviceSynchronize() == 0
print(size.value, *counts)
""")
    assert out == "42\n12 105 106 108\n"


@pytest.mark.skipif(not shutil.which("cmake"), reason="cmake is not installed")
@pytest.mark.parametrize("language", [pytest.param("CXX", marks=pytest.mark.wide), "HIP"])
def test_rocm_prefix(tmp_path, program, language):
    """CMake finds HIP in the folder that ``hiprt rocm-prefix`` writes, and builds with its hipcc.

    The language HIP is found without the toolchain file too, by the compiler's name alone.
    """
    prefix, source = tmp_path / "rocm", tmp_path / "source"
    for _ in range(2):  # a folder that was written before is written again
        done = program(sys.executable, "-m", "hiprt", "rocm-prefix", str(prefix))
        assert done.returncode == 0, done.stderr
    source.mkdir()
    uses = "enable_language(HIP)" if language == "HIP" else "find_package(hip REQUIRED)"
    links = "target_link_libraries(probe PRIVATE hip::device)" if language == "CXX" else ""
    (source / "CMakeLists.txt").write_text(f"""cmake_minimum_required(VERSION 3.21)
project(probe LANGUAGES CXX)
{uses}
add_executable(probe main.cpp kernels.hip)
set_source_files_properties(kernels.hip PROPERTIES LANGUAGE {language})
{links}
""")
    (source / "main.cpp").write_text("int run();\nint main() { return run() == 42 ? 0 : 1; }\n")
    (source / "kernels.hip").write_text("""#include <hip/hip_runtime.h>
__global__ void set(int *p) { *p = 42; }
int run() {
  int *p, got = 0;
  if (hipMalloc(&p, 4)) return 1;
  set<<<1, 1>>>(p);
  return hipMemcpy(&got, p, 4, hipMemcpyDeviceToHost) ? 2 : got;
}
""")
    toolchain = f"-DCMAKE_TOOLCHAIN_FILE={prefix / 'toolchain.cmake'}"
    if language == "HIP":
        toolchain = f"-DCMAKE_HIP_COMPILER={prefix / 'lib' / 'llvm' / 'bin' / 'clang++'}"
    for step in (["cmake", "-S", str(source), "-B", "build", toolchain], ["cmake", "--build", "build"]):
        done = program(*step)
        assert done.returncode == 0, done.stdout + done.stderr
    assert program("build/probe").returncode == 0
    refused = program(sys.executable, "-m", "hiprt", "rocm-prefix", str(source))
    assert refused.returncode != 0
    assert "holds something else" in refused.stderr


def test_a_host_compiler_links_with_the_rocm_prefix(tmp_path, program):
    """A program of g++ finds its libraries in the folder alone, by the usual flags."""
    prefix = tmp_path / "rocm"
    assert program(sys.executable, "-m", "hiprt", "rocm-prefix", str(prefix)).returncode == 0
    (tmp_path / "count.cpp").write_text("""#include <hip/hip_runtime.h>
#include <hip/hiprtc.h>
__host__ __device__ int twice(int x) { return 2 * x; }
int main() {
  int count = 0, major = 0, minor = 0;
  return hipGetDeviceCount(&count) || hiprtcVersion(&major, &minor) || twice(count) < 2;
}
""")
    paths = [f"-I{prefix / 'include'}", f"-L{prefix / 'lib'}", f"-Wl,-rpath,{prefix / 'lib'}"]
    built = program("g++", "-D__HIP_PLATFORM_AMD__", "count.cpp", *paths, "-lamdhip64", "-lhiprtc", "-o", "count")
    assert built.returncode == 0, built.stderr
    ran = program("./count")
    assert ran.returncode == 0, ran.stderr
