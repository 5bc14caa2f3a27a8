// Qualifiers, fixed-width types, indices, block barriers, printf and assert.
#pragma once
#pragma GCC system_header

#ifndef __HIPRT_HIPCC__
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __INTPTR_TYPE__ intptr_t;
typedef __UINTPTR_TYPE__ uintptr_t;
typedef __SIZE_TYPE__ size_t;
#if __HIPRTC_PTRDIFF_T_IS_LONG_LONG__
typedef long long ptrdiff_t;
#else
typedef __PTRDIFF_TYPE__ ptrdiff_t;
#endif
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

#ifndef NULL
#define NULL __null
#endif

#define HIP_VERSION_MAJOR 7
#define HIP_VERSION_MINOR 15
#define HIP_VERSION_PATCH 0
#define HIP_VERSION (HIP_VERSION_MAJOR * 10000000 + HIP_VERSION_MINOR * 100000 + HIP_VERSION_PATCH)
#endif

#ifdef __clang__
#define __hiprt_constinit __attribute__((require_constant_initialization))
#else
#define __hiprt_constinit __constinit
#endif

#ifndef __HIPRT_HIPCC__
#define __global__ __attribute__((used))
#define __shared__ __hiprt_constinit thread_local
#define __launch_bounds__(...)
#define __device__
#define __host__
#define __constant__ __attribute__((used))
#define __managed__ __attribute__((used))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#ifndef __restrict__
#define __restrict__ __restrict
#endif
#define __HIP_DEVICE_COMPILE__ 1
#else
#define __managed__ __attribute__((managed))
#ifdef __HIP_DEVICE_COMPILE__
// clang would put constants where nothing can be written, and the host writes them.
#undef __constant__
#define __constant__ __attribute__((device))
#endif
#endif
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__
#define HIP_DYNAMIC_SHARED(type, name) extern __shared__ type name[];
#define HIP_KERNEL_NAME(...) __VA_ARGS__
#define __HIP_NO_IMAGE_SUPPORT 1
#define __HIP_ARCH_HAS_GLOBAL_INT32_ATOMICS__ 1
#define __HIP_ARCH_HAS_SHARED_INT32_ATOMICS__ 1
#define __HIP_ARCH_HAS_GLOBAL_INT64_ATOMICS__ 1
#define __HIP_ARCH_HAS_SHARED_INT64_ATOMICS__ 1
#define __HIP_ARCH_HAS_FLOAT_ATOMIC_ADD__ 1
#define __HIP_ARCH_HAS_DOUBLES__ 1
#define __HIP_ARCH_HAS_WARP_VOTE__ 1
#define __HIP_ARCH_HAS_WARP_BALLOT__ 1
#define __HIP_ARCH_HAS_WARP_SHUFFLE__ 1

// What is inlined has the line of its caller, where the compiler can leave lines out.
#ifdef __clang__
#define __hiprt_inline __host__ __device__ inline __attribute__((always_inline, unused, nodebug))
#define __hiprt_unchecked __attribute__((disable_sanitizer_instrumentation))
#else
#define __hiprt_inline inline __attribute__((always_inline, unused))
#define __hiprt_unchecked
#endif

// The functions that a C library has too. In programs for hipcc, which know that library, these are for device code alone.
#ifdef __HIPRT_HIPCC__
#define __hiprt_libc __device__ inline __attribute__((always_inline, unused, nodebug))
#else
#define __hiprt_libc __hiprt_inline
#endif

#include "cpu_host.h"
#ifndef __HIPRT_SCAN__
#include "cpu_talk.h"
#endif

#ifndef __HIPRT_HIPCC__
struct dim3 {
  uint32_t x, y, z;
  constexpr dim3(uint32_t x_ = 1, uint32_t y_ = 1, uint32_t z_ = 1) : x(x_), y(y_), z(z_) {}
};
#endif

// The indices of kernels that are checked are read through an address space that means nothing here: the compiler tells of
// no access to another one than the first.
#ifdef __HIPRT_CHECK__
typedef const unsigned __attribute__((address_space(1))) __hiprt_quiet;
__hiprt_inline unsigned __hiprt_read(const unsigned &v) { return *(__hiprt_quiet *)(unsigned long)(&v); }
#else
__hiprt_inline unsigned __hiprt_read(const unsigned &v) { return v; }
#endif

struct __hiprt_index {
  uint32_t x, y, z;
  __hiprt_inline operator dim3() const { return dim3(x, y, z); }
};

__hiprt_inline __hiprt_thread *__hiprt_self() {
  return __hiprt_thread_at(reinterpret_cast<unsigned long>(__builtin_frame_address(0)));
}

extern "C" __device__ __attribute__((visibility("hidden"), used)) __hiprt_unchecked inline void *__emutls_get_address(const __hiprt_shared_variable *v) {
  return __hiprt_self()->shared + v->offset;
}

// The sources of the four index variables. Device functions read the record of their thread, through an empty asm: the
// loop over a block's threads (cpu_kernel.h) rewrites the record, and must not be vectorised around such a read.
struct __hiprt_record_index {
  __hiprt_inline __hiprt_index thread() const {
    const __hiprt_thread *self = __hiprt_self();
    uint32_t x = __hiprt_read(self->thread[0]);
    __asm__("" : "+r"(x));
    return {x, __hiprt_read(self->thread[1]), __hiprt_read(self->thread[2])};
  }
  static __hiprt_inline __hiprt_index of(const unsigned (&v)[3]) {
    return {__hiprt_read(v[0]), __hiprt_read(v[1]), __hiprt_read(v[2])};
  }
  __hiprt_inline __hiprt_index block() const { return of(__hiprt_self()->block); }
  __hiprt_inline __hiprt_index block_dim() const { return of(__hiprt_self()->block_dim); }
  __hiprt_inline __hiprt_index grid_dim() const { return of(__hiprt_self()->grid_dim); }
};
static constexpr __hiprt_record_index __hiprt_at{};

// A kernel's own copy of the indices, declared by hiprtc at the start of its body under the same name: plain values.
struct __attribute__((unused)) __hiprt_local_index {
  __hiprt_index thread_, block_, block_dim_, grid_dim_;
  __hiprt_inline __hiprt_local_index() {
    const __hiprt_thread *self = __hiprt_self();
    thread_ = __hiprt_record_index::of(self->thread);
    block_ = __hiprt_record_index::of(self->block);
    block_dim_ = __hiprt_record_index::of(self->block_dim);
    grid_dim_ = __hiprt_record_index::of(self->grid_dim);
  }
  __hiprt_inline __hiprt_index thread() const { return thread_; }
  __hiprt_inline __hiprt_index block() const { return block_; }
  __hiprt_inline __hiprt_index block_dim() const { return block_dim_; }
  __hiprt_inline __hiprt_index grid_dim() const { return grid_dim_; }
};

#ifdef __HIPRT_HIPCC__
// Host code has fields of these names, so that they cannot be macros. A kernel's own copy has the same names (cpu_words.h).
#define __hiprt_index_variable(name, source)                                                          \
  struct __hiprt_##name {                                                                             \
    __device__ inline __attribute__((always_inline, nodebug)) uint32_t get_x() const { return __hiprt_at.source().x; } \
    __device__ inline __attribute__((always_inline, nodebug)) uint32_t get_y() const { return __hiprt_at.source().y; } \
    __device__ inline __attribute__((always_inline, nodebug)) uint32_t get_z() const { return __hiprt_at.source().z; } \
    __declspec(property(get = get_x)) uint32_t x;                                                     \
    __declspec(property(get = get_y)) uint32_t y;                                                     \
    __declspec(property(get = get_z)) uint32_t z;                                                     \
    __device__ inline operator dim3() const { return __hiprt_at.source(); }                           \
    __device__ inline operator __hiprt_index() const { return __hiprt_at.source(); }                  \
  };                                                                                                  \
  static constexpr __hiprt_##name name {}
__hiprt_index_variable(threadIdx, thread);
__hiprt_index_variable(blockIdx, block);
__hiprt_index_variable(blockDim, block_dim);
__hiprt_index_variable(gridDim, grid_dim);
#undef __hiprt_index_variable
#else
#define threadIdx (__hiprt_at.thread())
#define blockIdx (__hiprt_at.block())
#define blockDim (__hiprt_at.block_dim())
#define gridDim (__hiprt_at.grid_dim())
#endif
#define hipThreadIdx_x (threadIdx.x)
#define hipThreadIdx_y (threadIdx.y)
#define hipThreadIdx_z (threadIdx.z)
#define hipBlockIdx_x (blockIdx.x)
#define hipBlockIdx_y (blockIdx.y)
#define hipBlockIdx_z (blockIdx.z)
#define hipBlockDim_x (blockDim.x)
#define hipBlockDim_y (blockDim.y)
#define hipBlockDim_z (blockDim.z)
#define hipGridDim_x (gridDim.x)
#define hipGridDim_y (gridDim.y)
#define hipGridDim_z (gridDim.z)
static constexpr int warpSize = HIPRT_CPU_WARP;

// A synchronising operation leaves its address in a section: the loader runs kernels that have none as plain loops.
__hiprt_inline void __hiprt_mark_sync() {
  __asm__ volatile(".pushsection .hiprt_sync,\"a\"\n\t.4byte 0f - .\n\t.popsection\n0:" ::: "memory");
}

__hiprt_inline unsigned __hiprt_block_barrier(__hiprt_barrier kind, unsigned predicate) {
  __hiprt_mark_sync();
  return __hiprt_host_table->barrier(__hiprt_self(), kind, predicate);
}
__hiprt_inline void __syncthreads() { __hiprt_block_barrier(__hiprt_barrier_plain, 0); }
__hiprt_inline int __syncthreads_count(int p) { return int(__hiprt_block_barrier(__hiprt_barrier_count, p != 0)); }
__hiprt_inline int __syncthreads_and(int p) { return int(__hiprt_block_barrier(__hiprt_barrier_and, p != 0)); }
__hiprt_inline int __syncthreads_or(int p) { return int(__hiprt_block_barrier(__hiprt_barrier_or, p != 0)); }

__hiprt_inline void __threadfence() {
  __hiprt_may_talk();
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
#ifdef __HIPRT_HIPCC__
#define __threadfence_block() __hiprt_fence_block()
#elif defined(__HIPRT_CHECK__)
__hiprt_inline void __threadfence_block() { __hiprt_host_table->fence(0); }
#else
__hiprt_inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
#endif
__hiprt_inline void __threadfence_system() { __threadfence(); }

// Loads that say how a GPU's caches are to treat them.
#define __hiprt_load(name)               \
  template <class T>                     \
  __hiprt_inline T name(const T *p) {    \
    return *p;                           \
  }
__hiprt_load(__ldg) __hiprt_load(__ldca) __hiprt_load(__ldcg) __hiprt_load(__ldcs)
#undef __hiprt_load

// The device heap is the host's.
__hiprt_libc void *malloc(size_t size) {
  __hiprt_may_talk();
  return __hiprt_host_table->allocate(size);
}
__hiprt_libc void free(void *p) {
  __hiprt_may_talk();
  __hiprt_host_table->release(p);
}

// Nanoseconds, whatever the clock of a GPU would count. A read lets the block's other threads go on, so that threads which
// wait for a time to pass wait together.
__hiprt_inline long long wall_clock64() {
  __hiprt_mark_sync();
  return (long long)__hiprt_host_table->clock();
}
__hiprt_inline long long clock64() { return wall_clock64(); }
__hiprt_libc long clock() { return long(wall_clock64()); }
// A wave that sleeps lets others go on, and here it need do no more.
#define __builtin_amdgcn_s_sleep(cycles) ((void)(cycles), (void)wall_clock64())

__attribute__((format(printf, 1, 2), unused, noinline)) __device__ static int printf(const char *format, ...) {
  __builtin_va_list arguments;
  __builtin_va_start(arguments, format);
  const int n = __hiprt_host_table->print(format, arguments);
  __builtin_va_end(arguments);
  return n;
}

#ifdef __HIPRT_HIPCC__
__hiprt_libc void *memcpy(void *to, const void *from, size_t n) { return __builtin_memcpy(to, from, n); }
__hiprt_libc void *memset(void *to, int value, size_t n) { return __builtin_memset(to, value, n); }
// What <cassert> calls.
extern "C" __device__ __attribute__((visibility("hidden"))) inline void __assert_fail(const char *text, const char *file, unsigned line,
                                                                                     const char *function) noexcept {
  __hiprt_host_table->fail("assertion", text, file, line, function);
  __builtin_unreachable();
}
#else
#define assert(condition) \
  ((condition) ? (void)0 : __hiprt_host_table->fail("assertion", #condition, __FILE__, __LINE__, __func__))
#endif
__hiprt_libc void abort() { __hiprt_host_table->fail("abort", "", "", 0, ""); }
__hiprt_inline void __trap() { __hiprt_host_table->fail("trap", "", "", 0, ""); }
