// Factors of matrix instructions that a wave makes in registers, 16 rows each, and their products; tiles.h says which lane has
// what of them. Where waves have no such instructions, lanes imitate those of gfx12.
namespace metal {

#if defined(HIPRT_TILE_FACTORS)
typedef pack<uint, TILE_RUN / 2> block_factor;
typedef TileSums block_sums;

template <typename T>
HIPRT_INLINE block_sums block_product(const block_factor& a, const block_factor& b, block_sums sums) {
  typedef typename tile_factor<T>::type factor;
  return factor_product(as_type<factor>(a), as_type<factor>(b), sums);
}
HIPRT_INLINE block_sums add_times(block_sums sums, block_sums others, float factor) {
  return __builtin_elementwise_fma(others, block_sums(factor), sums);
}
template <typename T>
HIPRT_INLINE uint rounded_pair(float low, float high) { return pair_of(low, high, T()); }
#else
enum : int { TILE_WAVE = 32, TILE_RUN = 8, TILE_DEPTH = 16, TILE_SUMS = 8 };
typedef pack<uint, TILE_RUN / 2> block_factor;
struct block_sums {
  float values[TILE_SUMS];
  HIPRT_INLINE float operator[](int i) const { return values[i]; }
};
HIPRT_INLINE uint sum_row(int i, uint lane) { return lane / 16 * TILE_SUMS + uint(i); }

template <typename T>
HIPRT_INLINE block_sums block_product(const block_factor& a, const block_factor& b, block_sums sums) {
  const uint lane = hiprt::lane_index();
  for (uint from = 0; from < 32; from += 16) {
    for (int k = 0; k < TILE_RUN / 2; k++) {
      const uint right = simd_shuffle(b.values[k], from + lane % 16);
      for (int i = 0; i < TILE_SUMS; i++) {
        const uint left = simd_shuffle(a.values[k], from + sum_row(i, lane));
        const float low = mad(hiprt::low_of<T>(left), hiprt::low_of<T>(right), sums.values[i]);
        sums.values[i] = mad(hiprt::high_of<T>(left), hiprt::high_of<T>(right), low);
      }
    }
  }
  return sums;
}
HIPRT_INLINE block_sums add_times(block_sums sums, block_sums others, float factor) {
  for (int i = 0; i < TILE_SUMS; i++) sums.values[i] = mad(others.values[i], factor, sums.values[i]);
  return sums;
}
template <typename T>
HIPRT_INLINE uint rounded_pair(float low, float high) { return hiprt::pair_of(T(low), T(high)); }
#endif

// The upper halves of two float32s.
HIPRT_INLINE uint upper_pair(float low, float high) {
  return hiprt::select_bytes(as_type<uint>(high), as_type<uint>(low), 0x07060302u);
}
// The power of two that codes are put below, twice. On AMD it is in a vector register, because CDNA's instructions take one
// constant, which is the mask of the codes.
template <typename T>
HIPRT_INLINE uint power_of() {
  uint word = hiprt::numbers<T>::WORD;
#if HIPRT_TARGET_AMD
  asm("" : "+v"(word));
#endif
  return word;
}

}  // namespace metal
