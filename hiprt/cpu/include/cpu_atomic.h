// Atomic functions of global and shared memory. Their order is relaxed, as in HIP.
#pragma once
#pragma GCC system_header

#ifndef __HIP_MEMORY_SCOPE_SYSTEM  // clang has these in programs for hipcc
#define __HIP_MEMORY_SCOPE_SINGLETHREAD 1
#define __HIP_MEMORY_SCOPE_WAVEFRONT 2
#define __HIP_MEMORY_SCOPE_WORKGROUP 3
#define __HIP_MEMORY_SCOPE_AGENT 4
#define __HIP_MEMORY_SCOPE_SYSTEM 5
#endif

template <class T>
struct __hiprt_same {
  typedef T type;
};

// This replaces *p by f(*p) and returns the old value.
template <class T, class Function>
__hiprt_inline T __hiprt_update(T *p, Function f) {
  T old, fresh;
  __atomic_load(p, &old, __ATOMIC_RELAXED);
  do fresh = f(old);
  while (!__atomic_compare_exchange(p, &old, &fresh, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return old;
}

// Each function has an overload for each of its types, and names that state a scope.
#define __hiprt_atomic(T, name, body)                                                 \
  __hiprt_inline T name(T *p, T v) { body; }                                          \
  __hiprt_inline T name##_system(T *p, T v) { body; }                                 \
  __hiprt_inline T name##_block(T *p, T v) { body; }
#define __hiprt_atomic_integer(T)                                                                  \
  __hiprt_atomic(T, atomicAdd, return __atomic_fetch_add(p, v, __ATOMIC_RELAXED))                  \
  __hiprt_atomic(T, atomicSub, return __atomic_fetch_sub(p, v, __ATOMIC_RELAXED))                  \
  __hiprt_atomic(T, atomicAnd, return __atomic_fetch_and(p, v, __ATOMIC_RELAXED))                  \
  __hiprt_atomic(T, atomicOr, return __atomic_fetch_or(p, v, __ATOMIC_RELAXED))                    \
  __hiprt_atomic(T, atomicXor, return __atomic_fetch_xor(p, v, __ATOMIC_RELAXED))                  \
  __hiprt_atomic_any(T)
#define __hiprt_atomic_float(T)                                                                    \
  __hiprt_atomic(T, atomicAdd, return __hiprt_update(p, [=](T old) { return old + v; }))           \
  __hiprt_atomic(T, atomicSub, return __hiprt_update(p, [=](T old) { return old - v; }))           \
  __hiprt_inline T unsafeAtomicAdd(T *p, T v) { return atomicAdd(p, v); }                          \
  __hiprt_inline T safeAtomicAdd(T *p, T v) { return atomicAdd(p, v); }                            \
  __hiprt_inline void atomicAddNoRet(T *p, T v) { atomicAdd(p, v); }                               \
  __hiprt_atomic_any(T)
#define __hiprt_atomic_any(T)                                                                      \
  __hiprt_atomic(T, atomicMin, return __hiprt_update(p, [=](T old) { return v < old ? v : old; })) \
  __hiprt_atomic(T, atomicMax, return __hiprt_update(p, [=](T old) { return old < v ? v : old; })) \
  __hiprt_atomic(T, atomicExch, T old; __atomic_exchange(p, &v, &old, __ATOMIC_RELAXED); return old) \
  __hiprt_inline T atomicCAS(T *p, T compare, T v) {                                               \
    __atomic_compare_exchange(p, &compare, &v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);         \
    return compare;                                                                                \
  }                                                                                                \
  __hiprt_inline T atomicCAS_system(T *p, T compare, T v) { return atomicCAS(p, compare, v); }     \
  __hiprt_inline T atomicCAS_block(T *p, T compare, T v) { return atomicCAS(p, compare, v); }

__hiprt_atomic_integer(int) __hiprt_atomic_integer(unsigned) __hiprt_atomic_integer(long)
__hiprt_atomic_integer(unsigned long) __hiprt_atomic_integer(long long) __hiprt_atomic_integer(unsigned long long)
__hiprt_atomic_float(float) __hiprt_atomic_float(double)
__hiprt_atomic(unsigned, atomicInc, return __hiprt_update(p, [=](unsigned old) { return old >= v ? 0 : old + 1; }))
__hiprt_atomic(unsigned, atomicDec, return __hiprt_update(p, [=](unsigned old) { return old == 0 || old > v ? v : old - 1; }))

__hiprt_inline unsigned short atomicCAS(unsigned short *p, unsigned short compare, unsigned short v) {
  __atomic_compare_exchange(p, &compare, &v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return compare;
}

// clang's own minima and maxima call nothing when they are checked; these do.
#if defined(__HIPRT_CHECK__) && defined(__clang__)
template <class T, class Function>
__hiprt_inline T __hiprt_ordered_update(T *p, int order, Function f) {
  __hiprt_may_talk();
  T old, fresh;
  __atomic_load(p, &old, __ATOMIC_RELAXED);
  do {
    fresh = f(old);
    const bool is_done = order < __ATOMIC_RELEASE
                             ? __atomic_compare_exchange(p, &old, &fresh, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)
                             : __atomic_compare_exchange(p, &old, &fresh, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    if (is_done) return old;
  } while (true);
}
template <class T>
__hiprt_inline T __hiprt_fetch_min(T *p, typename __hiprt_same<T>::type v, int order, int) {
  return __hiprt_ordered_update(p, order, [=](T old) { return v < old ? v : old; });
}
template <class T>
__hiprt_inline T __hiprt_fetch_max(T *p, typename __hiprt_same<T>::type v, int order, int) {
  return __hiprt_ordered_update(p, order, [=](T old) { return old < v ? v : old; });
}
#define __hip_atomic_fetch_min __hiprt_fetch_min
#define __hip_atomic_fetch_max __hiprt_fetch_max
#endif

#undef __hiprt_atomic
#undef __hiprt_atomic_integer
#undef __hiprt_atomic_float
#undef __hiprt_atomic_any

#ifndef __clang__  // clang has these built in
#define __hiprt_builtin_atomic(name, result)                                                             \
  template <class T>                                                                                     \
  __hiprt_inline T __hip_atomic_##name(T *p, typename __hiprt_same<T>::type v, int, int) {               \
    return result;                                                                                       \
  }
__hiprt_builtin_atomic(fetch_add, atomicAdd(p, v)) __hiprt_builtin_atomic(fetch_and, atomicAnd(p, v))
__hiprt_builtin_atomic(fetch_or, atomicOr(p, v)) __hiprt_builtin_atomic(fetch_xor, atomicXor(p, v))
__hiprt_builtin_atomic(fetch_min, atomicMin(p, v)) __hiprt_builtin_atomic(fetch_max, atomicMax(p, v))
__hiprt_builtin_atomic(exchange, atomicExch(p, v))
#undef __hiprt_builtin_atomic

// The order of loads and stores is known at run time only; the strongest is right for all.
template <class T>
__hiprt_inline T __hip_atomic_load(const T *p, int, int) {
  T v;
  __atomic_load(p, &v, __ATOMIC_SEQ_CST);
  return v;
}
template <class T>
__hiprt_inline void __hip_atomic_store(T *p, typename __hiprt_same<T>::type v, int, int) {
  __atomic_store(p, &v, __ATOMIC_SEQ_CST);
}
#endif
