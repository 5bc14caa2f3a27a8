// The kernels of a module and how each is entered; used by the text that hiprtc appends to a program (compile/program.cpp).
#pragma once
#pragma GCC system_header

// The most threads of a block whose kernel says nothing itself; --gpu-max-threads-per-block gives another number.
#ifndef __HIPRT_MAX_BLOCK__
#define __HIPRT_MAX_BLOCK__ 1024
#endif

template <unsigned long... Index>
struct __hiprt_sequence {};
template <unsigned long Length, unsigned long... Index>
struct __hiprt_make_sequence : __hiprt_make_sequence<Length - 1, Length - 1, Index...> {};
template <unsigned long... Index>
struct __hiprt_make_sequence<0, Index...> {
  typedef __hiprt_sequence<Index...> type;
};

// Offsets and sizes of a kernel's parameters in its argument block: a C struct's.
template <class... Args>
struct __hiprt_layout {
  __hiprt_param params[sizeof...(Args) + 1];
  unsigned end;
  __hiprt_inline constexpr __hiprt_layout() : params{}, end(0) {
    const unsigned sizes[] = {unsigned(sizeof(Args))..., 0}, aligns[] = {unsigned(alignof(Args))..., 1};
    for (unsigned i = 0; i < sizeof...(Args); ++i) {
      params[i].offset = (end + aligns[i] - 1) / aligns[i] * aligns[i];
      params[i].size = sizes[i];
      end = params[i].offset + sizes[i];
    }
  }
};

template <class Type, Type Kernel>
struct __hiprt_symbol;

template <class T, T *Variable>
struct __hiprt_symbol<T *, Variable> {
  static __device__ const void *address() { return Variable; }
  static __hiprt_inline constexpr __hiprt_entry entry(const char *expression, unsigned) {
    return {expression, address, nullptr, nullptr, 0, 0, 0, sizeof(T)};
  }
};

#ifdef __HIPRT_CHECK__
typedef __hiprt_thread __attribute__((address_space(1))) __hiprt_quiet_thread;
typedef __hiprt_check __attribute__((address_space(1))) __hiprt_quiet_check;
#endif

template <class... Args, void (*Kernel)(Args...)>
struct __hiprt_symbol<void (*)(Args...), Kernel> {
  static constexpr __hiprt_layout<Args...> layout{};

#if defined(__HIPRT_CHECK__) && !defined(__HIPRT_HIPCC__)
  // One iteration per thread along x; the checks are told which thread it is. The kernel becomes a part of this function, which is
  // checked like it, so that it tells its own writes to nobody (as cpu_language.h reads the indices).
  static __device__ __attribute__((noinline)) void threads(__hiprt_quiet_thread *t, __hiprt_quiet_check *check, unsigned x, unsigned row,
                                                           unsigned first, unsigned count, Args... a) {
    for (unsigned i = x; i < x + count; ++i) {
      t->thread[0] = i, check->thread = row + i, check->self = first + i;
      [[clang::always_inline]] Kernel(a...);
    }
  }
  static __hiprt_inline __hiprt_unchecked void loop(unsigned count, Args... a) {
    __hiprt_thread *const t = __hiprt_self();
    __hiprt_check *const check = __hiprt_checked();
    const unsigned row = t->block_dim[0] * (t->thread[1] + t->block_dim[1] * t->thread[2]);
    threads((__hiprt_quiet_thread *)(unsigned long)t, (__hiprt_quiet_check *)(unsigned long)check, t->thread[0], row,
            check->first + row, count, a...);
  }
#else
  // One iteration per thread along x. The thread's record is written whole in every iteration, right before the kernel reads
  // it, so that after inlining the indices are values and the record's memory is not read in the loop.
  static __hiprt_inline __hiprt_unchecked void loop(unsigned count, Args... a) {
    __hiprt_thread *const t = __hiprt_self();
    const unsigned x = t->thread[0], y = t->thread[1], z = t->thread[2], bx = t->block[0], by = t->block[1],
                   bz = t->block[2], dx = t->block_dim[0], dy = t->block_dim[1], dz = t->block_dim[2],
                   gx = t->grid_dim[0], gy = t->grid_dim[1], gz = t->grid_dim[2];
#ifdef __clang__
#pragma clang loop vectorize(assume_safety)
#endif
    for (unsigned i = 0; i < count; ++i) {
      t->thread[0] = x + i, t->thread[1] = y, t->thread[2] = z;
      t->block[0] = bx, t->block[1] = by, t->block[2] = bz;
      t->block_dim[0] = dx, t->block_dim[1] = dy, t->block_dim[2] = dz;
      t->grid_dim[0] = gx, t->grid_dim[1] = gy, t->grid_dim[2] = gz;
#ifdef __HIPRT_SCAN__  // the text is kept, and means something once it is checked
      __hiprt_name_thread(x + i + dx * (y + dy * z))
#endif
      Kernel(a...);
    }
  }
#endif
  template <unsigned long... Index>
  static __hiprt_inline __hiprt_unchecked void unpack(const unsigned char *p, unsigned count, __hiprt_sequence<Index...>) {
    (void)p;
    loop(count, *reinterpret_cast<const Args *>(p + layout.params[Index].offset)...);
  }
  static __device__ __hiprt_unchecked void run(const unsigned char *arguments, unsigned count) {
    unpack(arguments, count, typename __hiprt_make_sequence<sizeof...(Args)>::type());
  }
  static __device__ const void *address() { return reinterpret_cast<const void *>(Kernel); }
  static __hiprt_inline constexpr __hiprt_entry entry(const char *expression, unsigned max_threads) {
    return {expression, address, run, layout.params, sizeof...(Args), layout.end, max_threads, 0};
  }
};
template <class... Args, void (*Kernel)(Args...)>
constexpr __hiprt_layout<Args...> __hiprt_symbol<void (*)(Args...), Kernel>::layout;

#ifdef __HIPRT_HIPCC__
// A kernel's place in the module's table, `hiprt_kernels`. Its body names this (compile/kernel_list.cpp), so that every instance
// of a template is there.
template <class Type, Type Kernel, unsigned Threads>
struct __hiprt_listing {
  static __device__ const __hiprt_entry entry;
  static __device__ const __hiprt_entry *const listed;
};
template <class Type, Type Kernel, unsigned Threads>
__device__ const __hiprt_entry __hiprt_listing<Type, Kernel, Threads>::entry =
    __hiprt_symbol<Type, Kernel>::entry(nullptr, Threads);
template <class Type, Type Kernel, unsigned Threads>
__attribute__((used, section("hiprt_kernels"))) __device__ const __hiprt_entry *const
    __hiprt_listing<Type, Kernel, Threads>::listed = &entry;
#endif
