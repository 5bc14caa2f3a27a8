// The module's end of the table of host functions, and the C library functions that compilers call on their own.
#pragma once
#pragma GCC system_header

// Programs that are linked have these once.
#ifdef __HIPRT_LINKED__
#define __hiprt_once __attribute__((weak))
#else
#define __hiprt_once
#endif

extern "C" {
#if defined(__HIPRT_HIPCC__) && !defined(__HIP_DEVICE_COMPILE__)
extern __device__ const __hiprt_host *__hiprt_host_table;
#else
__device__ __attribute__((visibility("hidden"))) __hiprt_once const __hiprt_host *__hiprt_host_table = nullptr;
#endif

#ifdef __clang__
// Returns what the checks know of the core that this code runs on.
static __device__ inline __attribute__((always_inline, nodebug, disable_sanitizer_instrumentation)) __hiprt_check *__hiprt_checked() {
  return *reinterpret_cast<__hiprt_check **>(static_cast<char *>(__builtin_thread_pointer()) + __hiprt_host_table->check);
}
#endif

#define __hiprt_own __device__ __attribute__((visibility("hidden"), used)) __hiprt_once
#ifndef __HIPRT_HIPCC__
__hiprt_own void *memcpy(void *to, const void *from, size_t n) { return __hiprt_host_table->copy(to, from, n); }
__hiprt_own void *memmove(void *to, const void *from, size_t n) { return __hiprt_host_table->move(to, from, n); }
__hiprt_own void *memset(void *to, int value, size_t n) { return __hiprt_host_table->fill(to, value, n); }
__hiprt_own int memcmp(const void *a, const void *b, size_t n) { return __hiprt_host_table->compare(a, b, n); }
#ifndef __FMA__
#ifndef __aarch64__
__hiprt_own float fmaf(float a, float b, float c) { return __hiprt_host_table->fma_float(a, b, c); }
__hiprt_own double fma(double a, double b, double c) { return __hiprt_host_table->fma_double(a, b, c); }
#endif
#endif
#endif
// Double to half, which compilers call where the machine has no 16-bit arithmetic: first to a float whose last bit says
// whether anything was cut off, so that the second rounding is right.
#if defined(__x86_64__) && !defined(__AVX512FP16__) && !(defined(__HIPRT_HIPCC__) && !defined(__HIP_DEVICE_COMPILE__))
__hiprt_own _Float16 __truncdfhf2(double x) {
  const float near = float(x);
  unsigned bits;
  __builtin_memcpy(&bits, &near, sizeof bits);
  if (double(near) != x && x == x) {
    if (__builtin_fabs(double(near)) > __builtin_fabs(x)) --bits;
    bits |= 1;
  }
  float odd;
  __builtin_memcpy(&odd, &bits, sizeof odd);
  return _Float16(odd);
}
#endif
#undef __hiprt_own
}

__device__ __hiprt_once void *operator new(size_t size) { return __hiprt_host_table->allocate(size); }
__device__ __hiprt_once void *operator new[](size_t size) { return __hiprt_host_table->allocate(size); }
__device__ __hiprt_once void operator delete(void *p) noexcept { __hiprt_host_table->release(p); }
__device__ __hiprt_once void operator delete[](void *p) noexcept { __hiprt_host_table->release(p); }
__device__ __hiprt_once void operator delete(void *p, size_t) noexcept { __hiprt_host_table->release(p); }
__device__ __hiprt_once void operator delete[](void *p, size_t) noexcept { __hiprt_host_table->release(p); }
__device__ inline void *operator new(size_t, void *p) noexcept { return p; }
__device__ inline void *operator new[](size_t, void *p) noexcept { return p; }
#undef __hiprt_once
