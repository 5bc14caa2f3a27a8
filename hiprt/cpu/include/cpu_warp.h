// Operations among the 32 lanes of a warp. Each place in the text is an operation of its own, told apart by __COUNTER__:
// compilers duplicate and merge call sites, so a code address would not do. It is one for the lanes that came by one way.
#pragma once
#pragma GCC system_header

// A step for as long as it lives; declared where compile/reconvergence.cpp puts it.
struct __hiprt_way : __hiprt_step {
  __hiprt_inline explicit __hiprt_way(unsigned at) {
    const unsigned long self = reinterpret_cast<unsigned long>(this), base = self & ~(HIPRT_CPU_STACK_SIZE - 1);
    __hiprt_thread *const thread = __hiprt_self();
    outer = thread->step ? reinterpret_cast<const __hiprt_step *>(base + thread->step) : nullptr;
    place = at, turn = 0, depth = outer ? outer->depth + 1 : 1, trace = __hiprt_trace(outer, at, 0);
    thread->step = unsigned(self - base);
    show();
  }
  __hiprt_inline ~__hiprt_way() {
    __hiprt_self()->step = outer ? unsigned(reinterpret_cast<unsigned long>(outer) & (HIPRT_CPU_STACK_SIZE - 1)) : 0;
  }
  __hiprt_way(const __hiprt_way &) = delete;
  // It is true once, as the condition of a loop that only declares this.
  __hiprt_inline bool once() { return fresh_ ? !(fresh_ = false) : false; }
  // This begins the next turn of the loop and returns true.
  __hiprt_inline bool next() {
    trace = __hiprt_trace(outer, place, ++turn);
    show();
    return true;
  }

 private:
  // Compilers cannot see that the engine reads this.
  __hiprt_inline void show() { __asm__ volatile("" ::"r"(static_cast<__hiprt_step *>(this)) : "memory"); }
  bool fresh_ = true;
};

__hiprt_inline unsigned __lane_id() {
  const __hiprt_thread *t = __hiprt_self();
  const __hiprt_index i = __hiprt_at.thread();
  return (i.x + t->block_dim[0] * (i.y + t->block_dim[1] * i.z)) % HIPRT_CPU_WARP;
}

__hiprt_inline unsigned long long __hiprt_warp(unsigned key, __hiprt_warp_op op, unsigned long long value, unsigned lane,
                                               unsigned long long mask) {
  __hiprt_mark_sync();
  return __hiprt_host_table->warp(__hiprt_self(), key, op, value, lane, unsigned(mask));
}

template <class T>
struct __hiprt_is_mask {
  static constexpr bool value = false;
};
struct __hiprt_a_mask {
  static constexpr bool value = true;
};
template <>
struct __hiprt_is_mask<long> : __hiprt_a_mask {};
template <>
struct __hiprt_is_mask<unsigned long> : __hiprt_a_mask {};
template <>
struct __hiprt_is_mask<long long> : __hiprt_a_mask {};
template <>
struct __hiprt_is_mask<unsigned long long> : __hiprt_a_mask {};
// The mask of a *_sync operation. Warps may have 64 lanes, and HIP takes masks of 64 bits only.
template <class T>
__hiprt_inline unsigned long long __hiprt_mask(T mask) {
  static_assert(__hiprt_is_mask<T>::value, "the mask of a *_sync operation has 64 bits in HIP: write 0xffffffffull, or an unsigned long long");
  return (unsigned long long)(mask);
}

// This returns the value of another lane, or 0 if that lane takes no part.
template <class T>
__hiprt_inline T __hiprt_gather(unsigned key, T value, unsigned lane, unsigned long long mask) {
  static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
  unsigned long long bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  bits = __hiprt_warp(key, __hiprt_warp_gather, bits, lane, mask);
  __builtin_memcpy(&value, &bits, sizeof(T));
  return value;
}

// `width` lanes, a power of two, form a segment: indices count within it, and a lane outside it means the lane itself.
template <class T>
__hiprt_inline T __hiprt_shfl(unsigned key, unsigned long long mask, T value, int source, int width = warpSize) {
  const unsigned self = __hiprt_self()->lane, w = unsigned(width);
  return __hiprt_gather(key, value, (self & ~(w - 1)) + (unsigned(source) & (w - 1)), mask);
}
template <class T>
__hiprt_inline T __hiprt_shfl_up(unsigned key, unsigned long long mask, T value, unsigned delta, int width = warpSize) {
  const unsigned self = __hiprt_self()->lane, within = self & (unsigned(width) - 1);
  return __hiprt_gather(key, value, within < delta ? self : self - delta, mask);
}
template <class T>
__hiprt_inline T __hiprt_shfl_down(unsigned key, unsigned long long mask, T value, unsigned delta, int width = warpSize) {
  const unsigned self = __hiprt_self()->lane, within = self & (unsigned(width) - 1);
  return __hiprt_gather(key, value, within + delta >= unsigned(width) ? self : self + delta, mask);
}
template <class T>
__hiprt_inline T __hiprt_shfl_xor(unsigned key, unsigned long long mask, T value, int bits, int width = warpSize) {
  const unsigned self = __hiprt_self()->lane, w = unsigned(width), source = self ^ unsigned(bits);
  return __hiprt_gather(key, value, source >= ((self + w) & ~(w - 1)) ? self : source, mask);
}

#define __hiprt_with_mask(name)                                                  \
  template <class Mask, class T, class... Args>                                  \
  __hiprt_inline T name##_sync(unsigned key, Mask mask, T value, Args... rest) { \
    return name(key, __hiprt_mask(mask), value, rest...);                        \
  }
__hiprt_with_mask(__hiprt_shfl) __hiprt_with_mask(__hiprt_shfl_up)
__hiprt_with_mask(__hiprt_shfl_down) __hiprt_with_mask(__hiprt_shfl_xor)
#undef __hiprt_with_mask

__hiprt_inline unsigned long long __hiprt_ballot(unsigned key, unsigned long long mask, bool predicate) {
  const unsigned long long votes = __hiprt_warp(key, __hiprt_warp_ballot, predicate, 0, mask);
  return mask ? votes & mask : votes;
}
__hiprt_inline unsigned long long __hiprt_active(unsigned key, unsigned long long mask) {
  return __hiprt_warp(key, __hiprt_warp_sync, 0, 0, mask);
}
__hiprt_inline unsigned long long __hiprt_match_any(unsigned key, unsigned long long mask, unsigned long long value) {
  unsigned long long same = 0;
  for (unsigned lane = 0; lane < HIPRT_CPU_WARP; ++lane) {
    const unsigned long long other = __hiprt_warp(key, __hiprt_warp_gather, value, lane, mask);
    const unsigned long long here = __hiprt_warp(key, __hiprt_warp_sync, 0, 0, mask);
    same |= (unsigned long long)(other == value && (here >> lane & 1)) << lane;
  }
  return mask ? same & mask : same;
}
// This returns the lanes that take part, if all of them have one value, and otherwise none.
__hiprt_inline unsigned long long __hiprt_match_all(unsigned key, unsigned long long mask, unsigned long long value, int *all) {
  const unsigned long long here = __hiprt_active(key, mask), lanes = mask ? here & mask : here;
  *all = __hiprt_match_any(key, mask, value) == lanes;
  return *all ? lanes : 0;
}
template <class T>
__hiprt_inline unsigned long long __hiprt_match_bits(T value) {
  static_assert(sizeof(T) <= 8, "a match compares at most 8 bytes");
  unsigned long long bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  return bits;
}
