// Atomic functions. Their order is relaxed, as in Metal.
namespace metal {

enum memory_order { memory_order_relaxed = 0 };

template <typename T>
struct atomic {
  T value;
};
typedef atomic<int> atomic_int;
typedef atomic<uint> atomic_uint;
typedef atomic<float> atomic_float;
typedef atomic<bool> atomic_bool;
typedef atomic<ulong> atomic_ulong;

#if HIPRT_TARGET_AMD
#define HIPRT_ATOMIC(metal_name, hip_name, builtin)                                                           \
  template <typename T, typename V>                                                                           \
  HIPRT_INLINE T metal_name(volatile atomic<T>* object, V operand, memory_order) {                            \
    return builtin((T*)&object->value, T(operand), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);               \
  }
#else
// The dialect names a word of 64 bits long, and HIP names it long long.
namespace hiprt {
template <typename T>
struct hip_word {
  typedef T type;
};
template <>
struct hip_word<ulong> {
  typedef unsigned long long type;
};
}  // namespace hiprt
#define HIPRT_ATOMIC(metal_name, hip_name, builtin)                                                           \
  template <typename T, typename V>                                                                           \
  HIPRT_INLINE T metal_name(volatile atomic<T>* object, V operand, memory_order) {                            \
    typedef typename hiprt::hip_word<T>::type word;                                                           \
    return T(hip_name((word*)&object->value, word(T(operand))));                                              \
  }
#endif
HIPRT_ATOMIC(atomic_fetch_add_explicit, atomicAdd, __hip_atomic_fetch_add)
HIPRT_ATOMIC(atomic_fetch_max_explicit, atomicMax, __hip_atomic_fetch_max)
HIPRT_ATOMIC(atomic_fetch_min_explicit, atomicMin, __hip_atomic_fetch_min)
HIPRT_ATOMIC(atomic_fetch_and_explicit, atomicAnd, __hip_atomic_fetch_and)
HIPRT_ATOMIC(atomic_fetch_or_explicit, atomicOr, __hip_atomic_fetch_or)
HIPRT_ATOMIC(atomic_fetch_xor_explicit, atomicXor, __hip_atomic_fetch_xor)
HIPRT_ATOMIC(atomic_exchange_explicit, atomicExch, __hip_atomic_exchange)
#undef HIPRT_ATOMIC

template <typename T, typename V>
HIPRT_INLINE T atomic_fetch_sub_explicit(volatile atomic<T>* object, V operand, memory_order order) {
  return atomic_fetch_add_explicit(object, T(-T(operand)), order);
}

// Metal's weak exchange may fail at random; this one never does.
template <typename T, typename V>
HIPRT_INLINE bool atomic_compare_exchange_weak_explicit(volatile atomic<T>* object, T* expected, V desired, memory_order,
                                                        memory_order) {
#if HIPRT_TARGET_AMD
  return __hip_atomic_compare_exchange_strong((T*)&object->value, expected, T(desired), __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                              __HIP_MEMORY_SCOPE_AGENT);
#else
  typedef typename hiprt::hip_word<T>::type word;
  T before = T(atomicCAS((word*)&object->value, word(*expected), word(T(desired))));
  bool same = before == *expected;
  *expected = before;
  return same;
#endif
}

template <typename T>
HIPRT_INLINE T atomic_load_explicit(const volatile atomic<T>* object, memory_order) {
  return object->value;
}
template <typename T, typename V>
HIPRT_INLINE void atomic_store_explicit(volatile atomic<T>* object, V operand, memory_order) {
  object->value = T(operand);
}

}  // namespace metal
