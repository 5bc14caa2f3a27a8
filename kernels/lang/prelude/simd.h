// simd_ functions for kernels whose simdgroups are whole: all 32 lanes must reach a call together.
#define __HIPRT_WHOLE_WARPS__
namespace metal {
namespace hiprt {

// These read another lane's 32-bit word: by lane number, and by an exclusive or that is known when compiling.
#if HIPRT_TARGET_AMD
HIPRT_INLINE uint word_of_lane(uint word, uint lane) {
  return __builtin_amdgcn_ds_bpermute(((hardware_lane() & ~31u) | (lane & 31u)) << 2, word);
}
template <int MASK>
HIPRT_INLINE uint word_across(uint word) { return __builtin_amdgcn_ds_swizzle(word, (MASK << 10) | 31); }
#elif HIPRT_TARGET_NVIDIA
HIPRT_INLINE uint word_of_lane(uint word, uint lane) { return __shfl_sync(~0u, word, lane, 32); }
template <int MASK>
HIPRT_INLINE uint word_across(uint word) { return __shfl_xor_sync(~0u, word, MASK, 32); }
#else
HIPRT_INLINE uint word_of_lane(uint word, uint lane) { return __shfl(word, int(lane), 32); }
template <int MASK>
HIPRT_INLINE uint word_across(uint word) { return __shfl_xor(word, MASK, 32); }
#endif

HIPRT_INLINE float word_of_lane(float v, uint lane) { return as_type<float>(word_of_lane(as_type<uint>(v), lane)); }
HIPRT_INLINE int word_of_lane(int v, uint lane) { return int(word_of_lane(uint(v), lane)); }
HIPRT_INLINE half word_of_lane(half v, uint lane) { return half(word_of_lane(float(v), lane)); }
HIPRT_INLINE bfloat16_t word_of_lane(bfloat16_t v, uint lane) { return bfloat16_t(word_of_lane(float(v), lane)); }
template <int MASK>
HIPRT_INLINE float word_across(float v) { return as_type<float>(word_across<MASK>(as_type<uint>(v))); }
template <int MASK>
HIPRT_INLINE int word_across(int v) { return int(word_across<MASK>(uint(v))); }

}  // namespace hiprt
using namespace hiprt;

template <typename T>
HIPRT_INLINE T simd_shuffle(T v, uint lane) { return word_of_lane(v, lane); }
template <typename T>
HIPRT_INLINE T simd_broadcast(T v, uint lane) { return word_of_lane(v, lane); }
template <typename T>
HIPRT_INLINE T simd_shuffle_xor(T v, uint mask) { return word_of_lane(v, lane_index() ^ mask); }
template <typename T>
HIPRT_INLINE T simd_shuffle_up(T v, uint delta) {
  uint lane = lane_index();
  return word_of_lane(v, lane < delta ? lane : lane - delta);
}
template <typename T>
HIPRT_INLINE T simd_shuffle_down(T v, uint delta) {
  uint lane = lane_index();
  return word_of_lane(v, lane + delta > 31u ? lane : lane + delta);
}

// These are butterflies: every lane ends with the same bits, and the order of the sums is the same on every target.
#define HIPRT_SIMD_REDUCTION(name, expression)                                                                \
  template <int MASK, typename T>                                                                             \
  HIPRT_INLINE T name##_step(T a) {                                                                           \
    T b = word_across<MASK>(a);                                                                               \
    return expression;                                                                                        \
  }                                                                                                           \
  template <typename T>                                                                                       \
  HIPRT_INLINE T name(T v) {                                                                                  \
    return name##_step<1>(name##_step<2>(name##_step<4>(name##_step<8>(name##_step<16>(v)))));                \
  }
HIPRT_SIMD_REDUCTION(simd_sum, a + b)
HIPRT_SIMD_REDUCTION(simd_product, a * b)
HIPRT_SIMD_REDUCTION(simd_max, max(a, b))
HIPRT_SIMD_REDUCTION(simd_min, min(a, b))
#undef HIPRT_SIMD_REDUCTION

}  // namespace metal
