// Metal's language for the strict checker: OpenCL C++ has the address spaces, these are Metal's names for what differs. The
// library that follows is the dialect's own, declared as it is for AMD.
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#define HIPRT_TARGET_METAL 1
#define HIPRT_TARGET_CPU 0
#define HIPRT_TARGET_NVIDIA 0
#define HIPRT_TARGET_AMD 1
#define HIPRT_CPU_LOOPS 0
#define HIPRT_INLINE inline
#define HIPRT_UNROLL
#define __HIP_MEMORY_SCOPE_AGENT 4
#define HIPRT_FIRST_AT
#define HIPRT_HERE_ONLY
#define HIPRT_AT
#define HIPRT_HERE
// These words of OpenCL are plain names in Metal.
#define global hiprt_global
#define local hiprt_local
#define pipe hiprt_pipe
#define uniform hiprt_uniform
#define atomic_int hiprt_atomic_int
#define atomic_uint hiprt_atomic_uint
#define atomic_float hiprt_atomic_float
#define atomic_bool hiprt_atomic_bool
#define atomic_ulong hiprt_atomic_ulong
#define instantiate_kernel(name, func, ...) template decltype(func<__VA_ARGS__>) func<__VA_ARGS__>;  // attributes are checked apart
