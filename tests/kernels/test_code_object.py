"""Code objects: their metadata against what the compiler prints, plain HIP's words, and files that are none."""

import re

import pytest

from hiprt.errors import CompileError
from hiprt.kernels.offline.amd_compiler import Compiler, hip_program
from hiprt.kernels.offline.code_object import CodeObject
from hiprt.kernels.offline.resources import resources_of

SOURCE = """
#include <hip/hip_runtime.h>
#include <hip/hip_fp16.h>
#include <cstdint>
struct Pair { float a; double b; };
template <typename T>
__device__ __forceinline__ T total(T v) {
  for (int step = warpSize / 2; step > 0; step /= 2) v += __shfl_xor(v, step);
  return v;
}
extern "C" __global__ void __launch_bounds__(256, 2) sums(const float4* __restrict__ x, char c, Pair p, __half* h,
                                                                     int n) {
  extern __shared__ float dynamic[];
  __shared__ float parts[64];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float4 v = i < n ? x[i] : make_float4(0, 0, 0, 0);
  float s = total(v.x + v.y + v.z + v.w) * p.a + float(p.b) + c;
  if (threadIdx.x % warpSize == 0) parts[threadIdx.x / warpSize] = s;
  __syncthreads();
  dynamic[threadIdx.x] = parts[threadIdx.x & 63];
  if (i < n) h[i] = __float2half(expf(dynamic[threadIdx.x ^ 1]) + sqrtf(fmaxf(s, 0.0f)));
}
extern "C" __global__ void vote(uint64_t* out, unsigned* count, dim3 size) {
  if (__any(threadIdx.x > size.x)) atomicAdd(count, __popcll(__ballot(threadIdx.y == 0)));
  out[blockIdx.y * gridDim.x + blockIdx.x] = atomicCAS(count, 1u, size.z);
}
"""


@pytest.fixture(scope="module")
def compiler():
    return Compiler()


@pytest.fixture(scope="module", params=["gfx90a", "gfx942:xnack-", "gfx1100", "gfx1201"])
def made(request, compiler):
    """Target, assembly and code object."""
    assembly = compiler.assembly(hip_program(SOURCE, "sums.hip"), "sums", request.param)
    return request.param, assembly, compiler.code_object(assembly, "sums", request.param)


def test_code_objects_have_the_version_that_every_supported_runtime_loads(made):
    """Version 5, which is 3 in the ELF header's byte 8 (LLVM, AMDGPU usage, "ELF header"); HIP 6.1 and 6.2 refuse 6."""
    assert made[2][8] == 3


def test_metadata_is_what_the_compiler_prints(made):
    target, assembly, code = made
    found = CodeObject(code)
    assert found.target == target
    assert [kernel.name for kernel in found.kernels] == ["sums", "vote"]
    printed = assembly.split(".amdgpu_metadata")[1].split(
        "  - .agpr_count" if target.startswith("gfx9") else "  - .args"
    )
    for kernel, text in zip(found.kernels, printed[1:]):
        for name in ("vgpr_count", "sgpr_count", "kernarg_segment_size", "group_segment_fixed_size", "wavefront_size"):
            assert kernel.numbers[name] == int(re.search(rf"\.{name}: +(\d+)", text)[1])
        offsets = [int(offset) for offset in re.findall(r"\.offset: +(\d+)", text)]
        assert [argument.offset for argument in kernel.arguments] == offsets
        assert [argument.kind for argument in kernel.arguments] == re.findall(r"\.value_kind: +(\w+)", text)


def test_arguments_of_every_size(made):
    sums = CodeObject(made[2]).kernels[0]
    declared = [(one.offset, one.size) for one in sums.arguments if not one.kind.startswith("hidden_")]
    assert declared == [(0, 8), (8, 1), (16, 16), (32, 8), (40, 4)]


def test_resources_of_each_kernel_of_a_program(made):
    _, assembly, code = made
    sums, vote = resources_of(assembly, code)
    assert (sums.kernel, sums.lds, sums.wide_loads) == ("sums", 256, 1)
    assert (vote.kernel, vote.lds, vote.wide_loads) == ("vote", 0, 0)
    assert min(sums.vgpr, sums.sgpr) > 0
    assert not sums.spills


BUILTINS = """
typedef int v4i __attribute__((ext_vector_type(4)));
typedef float v4f __attribute__((ext_vector_type(4)));
typedef float v8f __attribute__((ext_vector_type(8)));
typedef _Float16 v2h __attribute__((ext_vector_type(2)));
typedef _Float16 v4h __attribute__((ext_vector_type(4)));
typedef _Float16 v8h __attribute__((ext_vector_type(8)));
extern "C" __global__ void k(float* f, const v2h* a, const v4h* b, const v8h* c, v4f* d, v8f* e) {
  f[0] = __builtin_amdgcn_fdot2(a[0], a[1], f[1], false);
  f[2] = __builtin_amdgcn_fdot2(a[2], a[3], f[3], false);
#if defined(__gfx942__)
  d[0] = __builtin_amdgcn_mfma_f32_16x16x16f16(b[0], b[1], d[1], 0, 0, 0);
#elif defined(__gfx1201__)
  e[0] = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(c[0], c[1], e[1]);
#endif
}
"""


@pytest.mark.parametrize("target", ["gfx942", "gfx1201"])
def test_dot_and_matrix_instructions_are_counted(compiler, target):
    assembly = compiler.assembly(hip_program(BUILTINS, "k.hip"), "k", target)
    (row,) = resources_of(assembly, compiler.code_object(assembly, "k", target))
    assert (row.dots, row.matrices) == (2, 1)


@pytest.mark.wide
def test_spills_are_seen(compiler):
    body = "".join(f"  float v{i} = x[{i} * 997 + threadIdx.x];\n" for i in range(160))
    text = (
        'extern "C" __global__ void __launch_bounds__(1024) k(volatile float* x) {\n'
        + body
        + "".join(f"  x[{i}] = v{i} * v{159 - i};\n" for i in range(160))
        + "}\n"
    )
    assembly = compiler.assembly(hip_program(text, "k.hip"), "k", "gfx942")
    (row,) = resources_of(assembly, compiler.code_object(assembly, "k", "gfx942"))
    assert row.vgpr_spills > 0
    assert row.scratch > 0


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("x[0] = foo(1);", r"my\.hip:3:\d+: error: use of undeclared identifier 'foo'"),
        ("x[0] = __builtin_erff(x[1]);", r"hiprt: my calls erff, which the source does not define"),
        ("x[0] = __builtin_tanhf(x[1]);", r"hiprt: my calls tanh, which the source does not define"),
        ("#error stop here", r"my\.hip:3:\d+: error: stop here"),
    ],
)
def test_errors_name_the_line_or_the_function(compiler, line, cause):
    text = hip_program(f"\n__global__ void k(float* x) {{\n{line}\n}}\n", "my.hip")
    with pytest.raises(CompileError) as raised:
        compiler.code_object(compiler.assembly(text, "my", "gfx1201"), "my", "gfx1201")
    assert re.search(cause, raised.value.log), raised.value.log


def test_what_is_no_code_object_is_refused(made):
    for wrong in (b"", b"text", b"\x7fELF\x01" + bytes(80), made[2][:100]):
        with pytest.raises(ValueError, match="not a code object for AMD: "):
            CodeObject(wrong)


def test_metadata_that_is_wrong_is_refused(made):
    """The note has another type, is no MessagePack, or lacks an entry."""
    at = made[2].index(b"AMDGPU\0")
    key = made[2].index(b"amdhsa.target")
    wrong = {"no metadata note": (at - 4, b"\1"), "MessagePack": (at + 8, b"\xc1"), "'amdhsa.target'": (key, b"x")}
    for cause, (place, byte) in wrong.items():
        with pytest.raises(ValueError, match=f"not a code object for AMD: .*{cause}"):
            CodeObject(made[2][:place] + byte + made[2][place + 1 :])
