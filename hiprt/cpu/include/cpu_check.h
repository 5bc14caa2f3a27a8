// What clang calls in kernels that are checked: the entry points of ThreadSanitizer (compiler-rt's tsan_interface.h), which
// tell the engine of each access, and of AddressSanitizer for those of other sizes. These functions themselves are not
// instrumented.
#pragma once
#pragma GCC system_header

#define __hiprt_reads 1u
#define __hiprt_writes 2u
#define __hiprt_atomic_access 4u
#define __hiprt_acquires 8u
#define __hiprt_releases 16u

#define __hiprt_hook \
  __device__ __attribute__((visibility("hidden"), used, noinline, nodebug, disable_sanitizer_instrumentation))
#define __hiprt_part static __device__ inline __attribute__((always_inline, nodebug, disable_sanitizer_instrumentation))
#define __hiprt_tell(p, size, kind) __hiprt_host_table->access(p, size, kind, __builtin_return_address(0))

__hiprt_part bool __hiprt_is_before(const __hiprt_check *check, unsigned long long access) {
  const unsigned who = unsigned(access);
  return who < check->before || who - check->block < check->ordered || who == check->self;
}

// Calls the engine, but for a thread's own stack.
static __device__ __attribute__((noinline, cold, nodebug, disable_sanitizer_instrumentation)) void __hiprt_look(
    const volatile void *at, unsigned long size, unsigned kind, const void *caller) {
  const unsigned long here = reinterpret_cast<unsigned long>(__builtin_frame_address(0));
  if (reinterpret_cast<unsigned long>(at) / __hiprt_check_stack == here / __hiprt_check_stack) return;
  __hiprt_host_table->access(at, size, kind, caller);
}

// Asks for the cells that the next block or the threads that follow will come to: cells are four times as long as their words, and
// rows of blocks too short for the machine to foresee them.
__hiprt_part void __hiprt_fetch_ahead(const __hiprt_cell *cell, bool has_second) {
  __builtin_prefetch(cell + __hiprt_check_ahead, 1);
  if (has_second) __builtin_prefetch(cell + __hiprt_check_words + __hiprt_check_ahead, 1);
}

// Notes an access to bytes of one word, if it is plain that nothing is wrong with it; else returns false.
__hiprt_part bool __hiprt_is_plain(__hiprt_check *check, unsigned long p, unsigned bytes, unsigned kind, unsigned long pc) {
  const unsigned long number = p / __hiprt_check_page_size;
  const __hiprt_check_page *page = &check->recent[number % __hiprt_check_recent];
  if (page->number != number) return false;
  __hiprt_cell *cell = &page->cells[p % __hiprt_check_page_size / 4], *second = cell + __hiprt_check_words;
  const unsigned long long write = cell->write, read = cell->read, mask = (unsigned long long)bytes << 52;
  const unsigned long long needed = mask << 8 | (kind & __hiprt_reads ? mask << 4 : 0);
  if ((write & needed) != needed || read & __hiprt_check_more || !__hiprt_is_before(check, write)) return false;
  const unsigned long long now = check->self | (unsigned long long)((pc - check->code) / 2 & 0x7ffff) << 32 | mask;
  const unsigned long long readers = read & __hiprt_check_readers;
  if (kind == __hiprt_reads) {
    if (unsigned(read) == check->self) {
      if (~read & mask) cell->read = read | mask;
      return true;
    }
    if (__hiprt_is_before(check, read)) {
      cell->read = now | readers;
      __hiprt_fetch_ahead(cell, readers != 0);
      return true;
    }
    // Of readers that nothing orders two are kept, of different warps if there are such.
    const unsigned long long other = readers ? second->read : 0;
    const bool in_a_warp = !((unsigned(other) ^ unsigned(read)) / 32), apart = (check->self ^ unsigned(read)) / 32;
    if (__hiprt_is_before(check, other) || (in_a_warp && apart)) second->read = now, cell->read = read | __hiprt_check_readers;
    return true;
  }
  if (!__hiprt_is_before(check, read) || (readers && !__hiprt_is_before(check, second->read))) return false;
  unsigned long long old = write & 15ull << 52;
  if (old & ~mask && unsigned(write) != check->self) {
    if (unsigned(write) >= check->before) return false;
    old = 0;
  }
  cell->write = (write & 255ull << 56) | mask << 4 | now | old;
  __hiprt_fetch_ahead(cell, false);
  return true;
}

// Returns whether an access goes on with its place's streak, which notes it later.
__hiprt_part bool __hiprt_goes_on(const void *at, unsigned long size, const void *caller) {
  const unsigned long p = reinterpret_cast<unsigned long>(at), pc = reinterpret_cast<unsigned long>(caller);
  __hiprt_check *check = __hiprt_checked();
  __hiprt_streak *streak = &check->streaks[pc % __hiprt_check_streaks];
  const unsigned self = check->self;
  if (streak->place != pc || streak->origin + size * self != p || streak->next != self || self >= streak->end) return false;
  streak->next = self + 1;
  return true;
}

__hiprt_part void __hiprt_touch(const volatile void *at, unsigned long size, unsigned kind, const void *caller) {
  const unsigned long p = reinterpret_cast<unsigned long>(at), pc = reinterpret_cast<unsigned long>(caller);
  __hiprt_check *check = __hiprt_checked();
  if (check->row_end && __hiprt_host_table->streak(p, size, kind, pc)) return;
  bool is_plain = p % (size < 4 ? size : 4) == 0 && (size <= 2 || size % 4 == 0);
  if (size <= 4) {
    is_plain = is_plain && __hiprt_is_plain(check, p, ((1u << size) - 1) << (size < 4 ? p % 4 : 0), kind, pc);
  } else {
    for (unsigned long i = 0; i < size; i += 4) is_plain = is_plain && __hiprt_is_plain(check, p + i, 15, kind, pc);
  }
  if (!is_plain) __hiprt_look(at, size, kind, caller);
}

// The same for accesses that are few, of which it would not pay to compile each kind.
static __device__ __attribute__((noinline, nodebug, disable_sanitizer_instrumentation)) void __hiprt_touch_any(
    const volatile void *at, unsigned long size, unsigned kind, const void *caller) {
  __hiprt_touch(at, size, kind, caller);
}

extern "C" {
__hiprt_hook void __tsan_init() {}
__hiprt_hook void __tsan_func_entry(void *) {}
__hiprt_hook void __tsan_func_exit() {}
__hiprt_hook void __tsan_vptr_update(void **, void *) {}
__hiprt_hook void __tsan_vptr_read(void **) {}

// A volatile access counts as atomic: programs that exchange data within a warp or wait for a flag write it so.
// Accesses that go on with a streak return before any register is saved.
#define __hiprt_access(name, size, kind)                                                                         \
  __hiprt_hook void __hiprt_##name##size(void *p) { __hiprt_touch(p, size, kind, __builtin_return_address(0)); } \
  __hiprt_hook void __tsan_##name##size(void *p) {                                                               \
    if (size >= 4 && __hiprt_goes_on(p, size, __builtin_return_address(0))) return;                              \
    __attribute__((musttail)) return __hiprt_##name##size(p);                                                    \
  }                                                                                                              \
  __hiprt_hook void __tsan_unaligned_##name##size(void *p) {                                                     \
    (size < 8 ? __hiprt_touch_any : __hiprt_touch)(p, size, kind, __builtin_return_address(0));                  \
  }
#define __hiprt_volatile_access(name, size, kind)                                                                \
  __hiprt_hook void __tsan_volatile_##name##size(void *p) { __hiprt_tell(p, size, kind | __hiprt_atomic_access); } \
  __hiprt_hook void __tsan_unaligned_volatile_##name##size(void *p) { __hiprt_tell(p, size, kind | __hiprt_atomic_access); }
#define __hiprt_accesses(size)                                                            \
  __hiprt_access(read, size, __hiprt_reads) __hiprt_access(write, size, __hiprt_writes)   \
  __hiprt_access(read_write, size, __hiprt_reads | __hiprt_writes)                        \
  __hiprt_volatile_access(read, size, __hiprt_reads) __hiprt_volatile_access(write, size, __hiprt_writes)
__hiprt_accesses(1) __hiprt_accesses(2) __hiprt_accesses(4) __hiprt_accesses(8) __hiprt_accesses(16)
#undef __hiprt_accesses
#undef __hiprt_access
#undef __hiprt_volatile_access

// Of these only the accesses count that ThreadSanitizer leaves out.
#define __hiprt_left_out(name, kind)                                                                 \
  __hiprt_hook void __asan_##name##1(unsigned long) {}                                               \
  __hiprt_hook void __asan_##name##2(unsigned long) {}                                               \
  __hiprt_hook void __asan_##name##4(unsigned long) {}                                               \
  __hiprt_hook void __asan_##name##8(unsigned long) {}                                               \
  __hiprt_hook void __asan_##name##16(unsigned long) {}                                              \
  __hiprt_hook void __asan_##name##N(unsigned long p, unsigned long size) {                          \
    if (size <= 16 && !(size & (size - 1))) return;                                                  \
    __hiprt_touch_any(reinterpret_cast<void *>(p), size, kind, __builtin_return_address(0));         \
  }
__hiprt_left_out(load, __hiprt_reads) __hiprt_left_out(store, __hiprt_writes)
#undef __hiprt_left_out

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
#undef __hiprt_part
#undef __hiprt_tell
