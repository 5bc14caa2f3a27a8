// The prelude of metal_kernel's bodies in Metal, beside utils.h. It has neither complex numbers nor Limits.
#define HIPRT_TARGET_METAL 1
#define HIPRT_TARGET_CPU 0
#define HIPRT_TARGET_NVIDIA 0
#define HIPRT_TARGET_AMD 0
#define HIPRT_UNROLL _Pragma("clang loop unroll(full)")
#include <metal_stdlib>
#include <metal_simdgroup>
#include <metal_simdgroup_matrix>
using namespace metal;
typedef half float16_t;
typedef bfloat bfloat16_t;
