// The quantised formats: a row is one little-endian stream of bits, code i at bits [i * bits, (i + 1) * bits).
namespace metal {

constant constexpr int AFFINE = 0;
constant constexpr int MXFP4 = 1;
constant constexpr int MXFP8 = 2;
constant constexpr int NVFP4 = 3;

// Code i of a row. No byte behind the last code is read.
inline uint code_at(const device uchar* row, uint i, uint bits) {
  size_t bit = size_t(i) * bits;
  const device uchar* from = row + (bit >> 3);
  uint shift = uint(bit) & 7u;
  uint word = *from;
  if (shift + bits > 8) word |= uint(from[1]) << 8;
  return (word >> shift) & ((1u << bits) - 1u);
}

// Floating codes, widened by way of half: the exponents differ by a power of two, which is multiplied back.
inline float e2m1(uint code) {
  return float(as_type<half>(ushort((code & 7u) << 9 | (code & 8u) << 12))) * 16384.0f;
}
inline float e4m3(uint code) {
  float value = float(as_type<half>(ushort((code & 127u) << 7 | (code & 128u) << 8))) * 256.0f;
  return (code & 127u) == 127u ? NAN : value;
}
inline float e8m0(uint code) { return as_type<float>(code == 0 ? 0x400000u : code << 23); }

inline float value_of(uint code, int mode) {
  return mode == AFFINE ? float(code) : mode == MXFP8 ? e4m3(code) : e2m1(code);
}

template <typename T>
inline float scale_at(const device uchar* scales, size_t group, int mode) {
  if (mode == AFFINE) return float(((const device T*)scales)[group]);
  return mode == NVFP4 ? e4m3(scales[group]) : e8m0(scales[group]);
}

#if HIPRT_CPU_LOOPS
// Eight neighbouring codes, which fill `bits` bytes.
inline f32x8 values8(const device uchar* from, uint bits, int mode) {
  ulong word = 0;
  for (uint i = 0; i < bits; i++) word |= ulong(from[i]) << (8 * i);
  const uint low = uint(word), high = uint(word >> (4 * bits)), mask = (1u << bits) - 1u;
  const u32x8 codes = (u32x8{low, low, low, low, high, high, high, high} >> (u32x8{0, 1, 2, 3, 0, 1, 2, 3} * bits)) & mask;
  if (mode == AFFINE) return __builtin_convertvector((i32x8)codes, f32x8);
  f32x8 values;
  for (int i = 0; i < 8; i++) values[i] = value_of(codes[i], mode);
  return values;
}
#endif

}  // namespace metal
