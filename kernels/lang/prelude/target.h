// This finds out which member of the HIP family compiles the text, and defines the HIP names that an offline compiler for
// AMD lacks.
#if defined(__HIPRT_CPU__)
#define HIPRT_TARGET_CPU 1
#elif defined(__CUDACC__) || defined(__CUDACC_RTC__) || defined(__CUDA__)
#define HIPRT_TARGET_NVIDIA 1
#else
#define HIPRT_TARGET_AMD 1
#endif

#ifndef HIPRT_TARGET_CPU
#define HIPRT_TARGET_CPU 0
#endif
#ifndef HIPRT_TARGET_NVIDIA
#define HIPRT_TARGET_NVIDIA 0
#endif
#ifndef HIPRT_TARGET_AMD
#define HIPRT_TARGET_AMD 0
#endif

// Bodies with a branch of plain loops for the CPU device take it unless the GPU branch is asked for.
#if HIPRT_TARGET_CPU && !defined(HIPRT_CPU_GENERIC)
#define HIPRT_CPU_LOOPS 1
#else
#define HIPRT_CPU_LOOPS 0
#endif

#if HIPRT_TARGET_AMD || defined(__CUDA__)
#ifndef __global__
#define __global__ __attribute__((global))
#endif
#ifndef __device__
#define __device__ __attribute__((device))
#endif
#ifndef __shared__
#define __shared__ __attribute__((shared))
#endif
#endif
#ifndef __launch_bounds__
#if HIPRT_TARGET_AMD
#define __launch_bounds__(threads) __attribute__((amdgpu_flat_work_group_size(1, threads)))
#elif defined(__CUDA__)
#define __launch_bounds__(threads) __attribute__((launch_bounds(threads)))
#endif
#endif

// The waves that a SIMD of CDNA shall hold at least, which bounds a kernel's registers.
#if HIPRT_TARGET_AMD && defined(__GFX9__)
#define HIPRT_WAVES(count) __attribute__((amdgpu_waves_per_eu(count)))
#else
#define HIPRT_WAVES(count)
#endif

#define HIPRT_INLINE __device__ inline __attribute__((always_inline))

// The last parameter of an operation among lanes is its place in the program's text. The CPU device runs each lane by itself
// and lets those lanes meet that came there by the same way (its compiler marks calls and loops).
#if HIPRT_TARGET_CPU && defined(__clang__)
#define HIPRT_SITE metal::hiprt::site_of(__builtin_FILE(), __builtin_LINE(), __builtin_COLUMN())
#elif HIPRT_TARGET_CPU
#define HIPRT_SITE metal::hiprt::site_of(__builtin_FILE(), __builtin_LINE(), 0)
#endif
#if HIPRT_TARGET_CPU
namespace metal {
namespace hiprt {
HIPRT_INLINE constexpr unsigned site_of(const char* file, int line, int column) {
  return (__builtin_strncmp(file, "header of ", 10) ? 3u << 30 : 1u << 31) + (unsigned(line) * 512u + unsigned(column & 511)) % (1u << 30);
}
}  // namespace hiprt
}  // namespace metal
#define HIPRT_FIRST_AT unsigned site = HIPRT_SITE
#define HIPRT_HERE_ONLY site
#define HIPRT_AT , HIPRT_FIRST_AT
#define HIPRT_HERE , site
#else
#define HIPRT_FIRST_AT
#define HIPRT_HERE_ONLY
#define HIPRT_AT
#define HIPRT_HERE
#endif
