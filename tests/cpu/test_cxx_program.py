"""Programs in plain C++ and C that use our headers and link with the CPU device."""

import os
import shutil
import subprocess

import pytest

CXX = r"""
#include <hip/hip_runtime.h>
#include <hip/hiprtc.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#define CHECK(call)                                      \
  do {                                                   \
    const int status = (call);                           \
    if (status) {                                        \
      std::fprintf(stderr, "%s: %d\n", #call, status);   \
      std::exit(1);                                      \
    }                                                    \
  } while (0)

static const char *kSource = R"(
extern "C" __global__ void saxpy(float a, const float *x, float *y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
)";

static std::vector<char> compile() {
  hiprtcProgram program;
  CHECK(hiprtcCreateProgram(&program, kSource, "saxpy.hip", 0, nullptr, nullptr));
  CHECK(hiprtcCompileProgram(program, 0, nullptr));
  size_t size = 0;
  CHECK(hiprtcGetCodeSize(program, &size));
  std::vector<char> code(size);
  CHECK(hiprtcGetCode(program, code.data()));
  CHECK(hiprtcDestroyProgram(&program));
  return code;
}

int main() {
  hipDeviceProp_t properties;
  CHECK(hipGetDeviceProperties(&properties, 0));
  hipModule_t module;
  hipFunction_t saxpy;
  const std::vector<char> code = compile();
  hiprtcLinkState link;
  CHECK(hiprtcLinkCreate(0, nullptr, nullptr, &link));
  CHECK(hiprtcLinkDestroy(link));
  CHECK(hipModuleLoadData(&module, code.data()));
  CHECK(hipModuleGetFunction(&saxpy, module, "saxpy"));

  int n = 10000;
  float a = 3;
  std::vector<float> x(n), y(n, 1);
  std::iota(x.begin(), x.end(), 0.0f);
  float *dx, *dy;
  const size_t bytes = n * sizeof(float);
  CHECK(hipMalloc(&dx, bytes));
  CHECK(hipMalloc(&dy, bytes));
  hipStream_t stream;
  hipEvent_t start, stop;
  CHECK(hipStreamCreate(&stream));
  CHECK(hipEventCreate(&start));
  CHECK(hipEventCreate(&stop));
  CHECK(hipMemcpyAsync(dx, x.data(), bytes, hipMemcpyHostToDevice, stream));
  CHECK(hipMemcpyAsync(dy, y.data(), bytes, hipMemcpyHostToDevice, stream));
  CHECK(hipEventRecord(start, stream));
  void *args[] = {&a, &dx, &dy, &n};
  CHECK(hipModuleLaunchKernel(saxpy, (n + 255) / 256, 1, 1, 256, 1, 1, 0, stream, args, nullptr));
  CHECK(hipEventRecord(stop, stream));
  CHECK(hipMemcpyAsync(y.data(), dy, bytes, hipMemcpyDeviceToHost, stream));
  CHECK(hipStreamSynchronize(stream));
  float ms = -1;
  CHECK(hipEventElapsedTime(&ms, start, stop));
  int wrong = 0;
  for (int i = 0; i < n; ++i) wrong += y[i] != a * i + 1;
  std::printf("%s: %d wrong, %s\n", properties.gcnArchName, wrong, ms >= 0 ? "timed" : "not timed");
  CHECK(hipEventDestroy(start));
  CHECK(hipEventDestroy(stop));
  CHECK(hipStreamDestroy(stream));
  CHECK(hipFree(dx));
  CHECK(hipFree(dy));
  CHECK(hipModuleUnload(module));
  std::printf("%s\n", hipGetErrorName(hipFree(dx)));
  return 0;
}
"""

C = r"""
#include <hip/hip_runtime.h>
#include <hip/hiprtc.h>
#include <stdio.h>

int main(void) {
  hipDeviceProp_t properties;
  hipKernelNodeParams params = {0};
  int *memory = NULL, value = 0;
  if (hipGetDeviceProperties(&properties, 0) != hipSuccess) return 1;
  if (hipMalloc((void **)&memory, 64) != hipSuccess || hipMemsetD32(memory, 42, 16) != hipSuccess) return 2;
  if (hipMemcpy(&value, memory + 15, sizeof value, hipMemcpyDeviceToHost) != hipSuccess) return 3;
  printf("%d %d %u\n", properties.warpSize, value, params.gridDim.x);
  return hipFree(memory) != hipSuccess;
}
"""


@pytest.fixture
def build(library, tmp_path):
    """Compile and run a program; return what it prints."""

    def run(source, suffix, compiler, *options):
        if not shutil.which(compiler):
            pytest.skip(f"no {compiler}")
        path, program = tmp_path / f"program.{suffix}", tmp_path / "program"
        path.write_text(source)
        include = library.parent.parent / "native" / "include"
        flags = ["-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror", *options, f"-I{include}", f"-L{library.parent}"]
        # A sanitizer that is preloaded is for the program, not for its compiler.
        plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        command = [compiler, *flags, str(path), "-o", str(program), "-lamdhip64", f"-Wl,-rpath,{library.parent}"]
        subprocess.run(command, check=True, env=plain)
        done = subprocess.run([program], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_a_cxx_program(build):
    assert build(CXX, "cpp", "g++", "-std=c++17") == "hiprt-cpu: 0 wrong, timed\nhipErrorInvalidValue\n"


QUALIFIED = r"""
#include <hip/hip_runtime.h>

__host__ __device__ __forceinline__ int twice(int x) { return 2 * x; }
__global__ void nothing(int *) {}
__constant__ int three = 3;
__shared__ int tile[4];

int main() { return twice(three) == 6 && tile[0] == 0 ? 0 : 1; }
"""


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_qualifiers_mean_nothing_to_a_host_compiler(build, compiler):
    assert build(QUALIFIED, "cpp", compiler, "-std=c++17", "-Wno-unused") == ""


def test_a_c_program(build):
    assert build(C, "c", "gcc", "-std=c11") == "32 42 0\n"
