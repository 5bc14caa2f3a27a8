// Values of x that one lane multiplies with a piece of a row: as float32, or as pairs for an instruction that adds two
// products of 16-bit numbers in float32 (codes as in dot.h).
namespace metal {

template <typename T>
struct has_dot {
  enum { value = 0 };
};

template <typename T, int BITS, bool DOTS>
struct lane_values {
  float at[lane_codes<BITS>::COUNT];

  void take(uint run, const thread T* values) {
    for (uint i = 0; i < 8; i++) at[run * 8 + i] = float(values[i]);
  }
  float dot(const thread lane_codes<BITS>& packed, float) const {
    constexpr uint COUNT = lane_codes<BITS>::COUNT;
    float sum = 0.0f;
    if (BITS % 4 != 0) {
#pragma unroll
      for (uint j = 0; j < COUNT; j++) sum = mad(code_of<BITS>(packed.words, j), at[j], sum);
      return sum;
    }
    for (uint w = 0; w < lane_codes<BITS>::WORDS; w++) {
      // Codes moved into bytes: the conversion of a byte to float32 is one instruction on AMD.
      uint even = BITS == 4 ? packed.words[w] & 0x0f0f0f0fu : packed.words[w];
      uint odd = (packed.words[w] >> 4) & 0x0f0f0f0fu;
      for (uint j = 0; j < 4; j++) {
        if (BITS == 4) {
          sum = mad(float((even >> (8 * j)) & 255u), at[(w * 8 + 2 * j) % COUNT], sum);
          sum = mad(float((odd >> (8 * j)) & 255u), at[(w * 8 + 2 * j + 1) % COUNT], sum);
        } else {
          sum = mad(float((even >> (8 * j)) & 255u), at[(w * 4 + j) % COUNT], sum);
        }
      }
    }
    return sum;
  }
};

#if HIPRT_TARGET_AMD && !defined(HIPRT_TARGET_METAL)
typedef half half_pair __attribute__((ext_vector_type(2)));
#if defined(__GFX9__) && !defined(__gfx900__) || defined(__gfx1030__) || defined(__GFX11__) || defined(__GFX12__)
template <>
struct has_dot<half> {
  enum { value = 1 };
};
inline float dot2(half, uint a, uint b, float c) {
  return __builtin_amdgcn_fdot2(as_type<half_pair>(a), as_type<half_pair>(b), c, false);
}
#endif
#if defined(__gfx950__) || defined(__GFX11__) || defined(__GFX12__)
typedef __bf16 bfloat_pair __attribute__((ext_vector_type(2)));
template <>
struct has_dot<bfloat16_t> {
  enum { value = 1 };
};
inline float dot2(bfloat16_t, uint a, uint b, float c) {
  return __builtin_amdgcn_fdot2_f32_bf16(as_type<bfloat_pair>(a), as_type<bfloat_pair>(b), c, false);
}
#endif

template <typename T, int BITS>
struct lane_values<T, BITS, true> {
  typedef coded<T, BITS> code;
  static constexpr int PER_RUN = BITS / 4 * code::REGISTERS;
  uint pairs[16 / BITS * PER_RUN];

  void take(uint run, const T* values) {
    uint own[PER_RUN];
    T given[8];
    for (int i = 0; i < 8; i++) given[i] = values[i];
    arrange<T, BITS>(given, own);
    for (int i = 0; i < PER_RUN; i++) pairs[run * PER_RUN + i] = own[i];
  }
  float dot(const lane_codes<BITS>& packed, float total) const {
    float sum = -code::OFFSET * total;
    for (int w = 0; w < 4; w++) {
      uint codes[code::REGISTERS];
      numbers_of<T, BITS>(packed.words[w], codes);
      for (int i = 0; i < code::REGISTERS; i++) sum = dot2(T(), codes[i], pairs[w * code::REGISTERS + i], sum);
    }
    return sum;
  }
};
#endif

}  // namespace metal
