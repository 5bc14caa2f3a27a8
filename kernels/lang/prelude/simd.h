// simd_ functions for kernels whose simdgroups are whole: all 32 lanes must reach a call together.
#define __HIPRT_WHOLE_WARPS__
namespace metal {
namespace hiprt {

// These read another lane's 32-bit word: by lane number, and by an exclusive or that is known when compiling.
#if HIPRT_TARGET_AMD
HIPRT_INLINE uint word_of_lane(uint word, uint lane) {
  return __builtin_amdgcn_ds_bpermute(((hardware_lane() & ~31u) | (lane & 31u)) << 2, word);
}
// Words of lanes within a row of 16 come with a vector instruction (DPP) and not by way of LDS, and so do those of the other
// row where there is such an instruction. What is read stays alive, and the move apart from what follows: the emulator in
// which kernels are executed reads lanes that the same instruction has written.
template <int CONTROL>
HIPRT_INLINE uint word_within_row(uint word) {
  uint moved = __builtin_amdgcn_mov_dpp(word, CONTROL, 15, 15, true);
  asm("" : "+v"(moved) : "v"(word));
  return moved;
}
template <int MASK>
HIPRT_INLINE uint word_across(uint word) {
#ifdef __GFX9__
  constexpr int SWAP_1 = 0xb1, SWAP_2 = 0x4e, MIRROR_4 = 0x1b, MIRROR_8 = 0x141, ROTATE_8 = 0x128;
  if (MASK == 1) return word_within_row<SWAP_1>(word);
  if (MASK == 2) return word_within_row<SWAP_2>(word);
  if (MASK == 4) return word_within_row<MIRROR_4>(word_within_row<MIRROR_8>(word));
  if (MASK == 8) return word_within_row<ROTATE_8>(word);
  return __builtin_amdgcn_ds_swizzle(word, (MASK << 10) | 31);
#else
  constexpr int EXCLUSIVE_OR = 0x160;
  if (MASK < 16) return word_within_row<EXCLUSIVE_OR | MASK % 16>(word);
  uint moved, first_lanes = 0x76543210u, last_lanes = 0xfedcba98u;
  asm("" : "=v"(moved));                               // any register: every lane is written
  asm("" : "+s"(first_lanes), "+s"(last_lanes));       // the emulator reads no constants there
  moved = __builtin_amdgcn_permlanex16(moved, word, first_lanes, last_lanes, false, false);
  asm("" : "+v"(moved) : "v"(word));
  return moved;
#endif
}
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

// The sum of `own` and of what `other` is in the lane that an exclusive or with MASK finds. On AMD that is one instruction,
// which for the emulator's sake does not write what it reads; GCN and CDNA need two cycles before they read other lanes.
#if HIPRT_TARGET_AMD
#ifdef __GFX9__
#define HIPRT_BEFORE_DPP "s_nop 1\n\t"
#else
#define HIPRT_BEFORE_DPP ""
#endif
#define HIPRT_ADD_NEAR(lanes)                                                                 \
  asm(HIPRT_BEFORE_DPP "v_add_f32_dpp %0, %2, %1 " lanes " row_mask:0xf bank_mask:0xf" : "=&v"(sum) : "v"(own), "v"(other))
#endif
template <int MASK>
HIPRT_INLINE float add_near(float own, float other) {
#if HIPRT_TARGET_AMD
  float sum;
  if (MASK == 1) HIPRT_ADD_NEAR("quad_perm:[1,0,3,2]");
  if (MASK == 2) HIPRT_ADD_NEAR("quad_perm:[2,3,0,1]");
  if (MASK == 7) HIPRT_ADD_NEAR("row_half_mirror");
  if (MASK == 8) HIPRT_ADD_NEAR("row_ror:8");
#ifdef __GFX9__
  constexpr bool IS_FOUR_APART = false;
#else
  constexpr bool IS_FOUR_APART = MASK == 4;
  if (IS_FOUR_APART) HIPRT_ADD_NEAR("row_xmask:4");
#endif
  if (MASK == 1 || MASK == 2 || MASK == 7 || MASK == 8 || IS_FOUR_APART) return sum;
#endif
  return own + word_across<MASK>(other);
}
template <int MASK>
HIPRT_INLINE float add_near(float v) { return add_near<MASK>(v, v); }

}  // namespace hiprt
using namespace hiprt;

template <typename T>
HIPRT_INLINE T simd_shuffle(T v, uint lane) { return word_of_lane(v, lane); }
template <typename T>
HIPRT_INLINE T simd_broadcast(T v, uint lane) { return word_of_lane(v, lane); }
// A mask that is known when compiling, as in an unrolled loop, needs no LDS on AMD.
#if HIPRT_TARGET_AMD
#define HIPRT_KNOWN_MASK(function, v, mask)      \
  if (__builtin_constant_p(mask)) {              \
    if (mask == 1) return function<1>(v);        \
    if (mask == 2) return function<2>(v);        \
    if (mask == 4) return function<4>(v);        \
    if (mask == 8) return function<8>(v);        \
    if (mask == 16) return function<16>(v);      \
  }
#else
#define HIPRT_KNOWN_MASK(function, v, mask)
#endif
template <typename T>
HIPRT_INLINE T simd_shuffle_xor(T v, uint mask) {
  HIPRT_KNOWN_MASK(word_across, v, mask)
#if HIPRT_TARGET_NVIDIA
  if constexpr (sizeof(T) == sizeof(uint)) return as_type<T>(__shfl_xor_sync(~0u, as_type<uint>(v), mask, 32));
#endif
  return word_of_lane(v, lane_index() ^ mask);
}
// The sum of a number and of that in the lane which an exclusive or with `mask` finds.
HIPRT_INLINE float sum_across(float v, uint mask) {
  HIPRT_KNOWN_MASK(add_near, v, mask)
  return v + word_of_lane(v, lane_index() ^ mask);
}
#undef HIPRT_KNOWN_MASK
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
template <int MASK>
HIPRT_INLINE float simd_sum_step(float a) { return add_near<MASK>(a); }
HIPRT_SIMD_REDUCTION(simd_sum, a + b)
HIPRT_SIMD_REDUCTION(simd_product, a * b)
HIPRT_SIMD_REDUCTION(simd_max, max(a, b))
HIPRT_SIMD_REDUCTION(simd_min, min(a, b))
#undef HIPRT_SIMD_REDUCTION
#if HIPRT_TARGET_NVIDIA && __CUDA_ARCH__ >= 800
// One instruction each, in the place of ten.
template <>
HIPRT_INLINE int simd_max(int v) { return __reduce_max_sync(0xffffffffu, v); }
template <>
HIPRT_INLINE uint simd_max(uint v) { return __reduce_max_sync(0xffffffffu, v); }
template <>
HIPRT_INLINE int simd_min(int v) { return __reduce_min_sync(0xffffffffu, v); }
template <>
HIPRT_INLINE uint simd_min(uint v) { return __reduce_min_sync(0xffffffffu, v); }
#endif

}  // namespace metal
