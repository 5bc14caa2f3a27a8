// What clang calls in kernels that are checked: the entry points of ThreadSanitizer (compiler-rt's tsan_interface.h), which
// tell the engine of each access. Compiled with -fsanitize=thread, these functions themselves are not instrumented.
#pragma once
#pragma GCC system_header

#define __hiprt_reads 1u
#define __hiprt_writes 2u
#define __hiprt_atomic_access 4u
#define __hiprt_acquires 8u
#define __hiprt_releases 16u

#define __hiprt_hook \
  __device__ __attribute__((visibility("hidden"), used, noinline, nodebug, disable_sanitizer_instrumentation))
#define __hiprt_tell(p, size, kind) __hiprt_host_table->access(p, size, kind, __builtin_return_address(0))

extern "C" {
__hiprt_hook void __tsan_init() {}
__hiprt_hook void __tsan_func_entry(void *) {}
__hiprt_hook void __tsan_func_exit() {}
__hiprt_hook void __tsan_vptr_update(void **, void *) {}
__hiprt_hook void __tsan_vptr_read(void **) {}

// A volatile access counts as atomic: programs that exchange data within a warp or wait for a flag write it so.
#define __hiprt_accesses(size, name)                                                                              \
  __hiprt_hook void __tsan_read##name(void *p) { __hiprt_tell(p, size, __hiprt_reads); }                          \
  __hiprt_hook void __tsan_write##name(void *p) { __hiprt_tell(p, size, __hiprt_writes); }                        \
  __hiprt_hook void __tsan_unaligned_read##name(void *p) { __hiprt_tell(p, size, __hiprt_reads); }                \
  __hiprt_hook void __tsan_unaligned_write##name(void *p) { __hiprt_tell(p, size, __hiprt_writes); }              \
  __hiprt_hook void __tsan_volatile_read##name(void *p) {                                                         \
    __hiprt_tell(p, size, __hiprt_reads | __hiprt_atomic_access);                                                 \
  }                                                                                                               \
  __hiprt_hook void __tsan_volatile_write##name(void *p) {                                                        \
    __hiprt_tell(p, size, __hiprt_writes | __hiprt_atomic_access);                                                \
  }                                                                                                               \
  __hiprt_hook void __tsan_unaligned_volatile_read##name(void *p) {                                               \
    __hiprt_tell(p, size, __hiprt_reads | __hiprt_atomic_access);                                                 \
  }                                                                                                               \
  __hiprt_hook void __tsan_unaligned_volatile_write##name(void *p) {                                              \
    __hiprt_tell(p, size, __hiprt_writes | __hiprt_atomic_access);                                                \
  }
__hiprt_accesses(1, 1) __hiprt_accesses(2, 2) __hiprt_accesses(4, 4) __hiprt_accesses(8, 8) __hiprt_accesses(16, 16)
#undef __hiprt_accesses

__hiprt_hook void *__tsan_memcpy(void *to, const void *from, unsigned long n) {
  __hiprt_tell(from, n, __hiprt_reads);
  __hiprt_tell(to, n, __hiprt_writes);
  return __hiprt_host_table->copy(to, from, n);
}
__hiprt_hook void *__tsan_memmove(void *to, const void *from, unsigned long n) {
  __hiprt_tell(from, n, __hiprt_reads);
  __hiprt_tell(to, n, __hiprt_writes);
  return __hiprt_host_table->move(to, from, n);
}
__hiprt_hook void *__tsan_memset(void *to, int value, unsigned long n) {
  __hiprt_tell(to, n, __hiprt_writes);
  return __hiprt_host_table->fill(to, value, n);
}

// An operation orders as its own order says: 3 releases, 4 and 5 do both.
#define __hiprt_order(order) ((order) >= 3 ? __hiprt_releases : 0u)
#define __hiprt_modify __hiprt_reads | __hiprt_writes | __hiprt_atomic_access
#define __hiprt_atomics(bits, T)                                                                                  \
  __hiprt_hook T __tsan_atomic##bits##_load(const volatile T *p, int) {                                           \
    __hiprt_tell(p, sizeof(T), __hiprt_reads | __hiprt_atomic_access);                                            \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                                  \
  }                                                                                                               \
  __hiprt_hook void __tsan_atomic##bits##_store(volatile T *p, T v, int order) {                                  \
    __hiprt_tell(p, sizeof(T), __hiprt_writes | __hiprt_atomic_access | __hiprt_order(order));                    \
    __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                                                     \
  }                                                                                                               \
  __hiprt_hook T __tsan_atomic##bits##_exchange(volatile T *p, T v, int order) {                                  \
    __hiprt_tell(p, sizeof(T), __hiprt_modify | __hiprt_order(order));                                            \
    return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);                                                           \
  }                                                                                                               \
  __hiprt_atomic_update(bits, T, add) __hiprt_atomic_update(bits, T, sub) __hiprt_atomic_update(bits, T, and)     \
  __hiprt_atomic_update(bits, T, or) __hiprt_atomic_update(bits, T, xor) __hiprt_atomic_update(bits, T, nand)     \
  __hiprt_hook T __tsan_atomic##bits##_compare_exchange_val(volatile T *p, T old, T v, int order, int) {          \
    __hiprt_tell(p, sizeof(T), __hiprt_modify | __hiprt_order(order));                                            \
    __atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                           \
    return old;                                                                                                   \
  }
#define __hiprt_atomic_update(bits, T, name)                                                                      \
  __hiprt_hook T __tsan_atomic##bits##_fetch_##name(volatile T *p, T v, int order) {                              \
    __hiprt_tell(p, sizeof(T), __hiprt_modify | __hiprt_order(order));                                            \
    return __atomic_fetch_##name(p, v, __ATOMIC_SEQ_CST);                                                         \
  }
__hiprt_atomics(8, unsigned char) __hiprt_atomics(16, unsigned short) __hiprt_atomics(32, unsigned)
__hiprt_atomics(64, unsigned long)
#undef __hiprt_atomic_update
#undef __hiprt_atomics

__hiprt_hook void __tsan_atomic_thread_fence(int) { __hiprt_host_table->fence(1); }
__hiprt_hook void __tsan_atomic_signal_fence(int) {}
}
#undef __hiprt_hook
#undef __hiprt_tell
