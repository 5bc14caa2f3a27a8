// Codes of a row on their way to a tile: sixteen at a time, which are half of a step of 32 codes, and those BITS words.
namespace metal {

// The words in which the sixteen codes are. Where BITS is odd, the second half of a step begins in the middle of a word.
template <int BITS>
struct sixteen_codes {
  enum : int { WORDS = (BITS + 1) / 2, EACH_LOAD = BITS % 2 != 0 ? 1 : WORDS & -WORDS };
  uint words[WORDS];

  void load(const device uint* from) {
#pragma unroll
    for (int i = 0; i < WORDS; i += EACH_LOAD) {
      const pack<uint, EACH_LOAD> loaded = *(const device pack<uint, EACH_LOAD>*)(from + i);
#pragma unroll
      for (int j = 0; j < EACH_LOAD; j++) words[i + j] = loaded.values[j];
    }
  }
  // The same with the first code in the lowest bits; `second` is 1 for the second half of a step, and 0 for the first.
  sixteen_codes from_first(uint second) const {
    sixteen_codes moved = *this;
    if (BITS % 2 == 0) return moved;
#pragma unroll
    for (int i = 0; i < WORDS; i++) {
      const ulong both = ulong(i + 1 < WORDS ? words[i + 1] : 0u) << 32 | words[i];
      moved.words[i] = uint(both >> (16 * second));
    }
    return moved;
  }
};

// Byte j of a word as a number.
inline float byte_of(uint word, uint j) {
#if HIPRT_HAS_MMA
  // The byte becomes the low bits of 2^23's mantissa: two instructions at full rate, where a conversion has a quarter.
  return as_type<float>(__byte_perm(word, 0x4b000000u, 0x7650u + j)) - 8388608.0f;
#else
  return float((word >> (8 * j)) & 255u);
#endif
}

// Code j as a number. Codes that divide a byte are moved into bytes: those at the same place of their bytes together.
template <int BITS>
inline float code_of(thread const uint* words, uint j) {
  constexpr uint MASK = (1u << BITS) - 1u;
  if (8 % BITS == 0) {
    constexpr uint PER_WORD = 32 / BITS, PER_BYTE = BITS > 8 ? 1 : 8 / BITS;
    uint bytes = (words[j / PER_WORD] >> (j % PER_BYTE * BITS)) & (MASK * 0x01010101u);
#if HIPRT_TARGET_AMD
    // A byte is converted in one instruction, but the compiler would cut each code out of the word first.
    if (BITS < 8) asm("" : "+v"(bytes));
#endif
    return byte_of(bytes, j % PER_WORD / PER_BYTE);
  }
  const uint bit = j * BITS, shift = bit % 32;
  uint code = words[bit / 32] >> shift;
  if (shift + BITS > 32) code |= words[bit / 32 + 1] << (32 - shift);
  return byte_of(code & MASK, 0);
}
// What eight codes stand for, from a code on.
template <int BITS>
inline void unpack(thread float* values, thread const uint* words, uint from, float scale, float bias) {
#if HIPRT_TARGET_AMD
  // A vector, because CDNA computes two at a time.
  typedef float Eight __attribute__((ext_vector_type(8)));
  Eight codes;
#pragma unroll
  for (uint j = 0; j < 8; j++) codes[j] = code_of<BITS>(words, from + j);
  codes = __builtin_elementwise_fma(codes, Eight(scale), Eight(bias));
#pragma unroll
  for (uint j = 0; j < 8; j++) values[j] = codes[j];
#else
#pragma unroll
  for (uint j = 0; j < 8; j++) values[j] = mad(code_of<BITS>(words, from + j), scale, bias);
#endif
}

}  // namespace metal
