// The module's end of the table of host functions, and the C library functions that compilers call on their own.
#pragma once
#pragma GCC system_header

extern "C" {
__attribute__((visibility("hidden"))) const __hiprt_host *__hiprt_host_table = nullptr;

#define __hiprt_own __attribute__((visibility("hidden"), used))
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
#undef __hiprt_own
}
