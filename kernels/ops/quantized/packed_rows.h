// Packed rows of codes times a vector. On GPUs a lane reads a piece of a row at a time; the vector is staged for a
// threadgroup so that lanes with neighbouring pieces read neighbouring words.
namespace metal {

#if HIPRT_CPU_LOOPS
// The sum over a row of (code * scale + bias) * value. totals: of the values, by groups.
template <typename T, int GROUP, int BITS>
inline float row_sum(const uint* codes, const T* scales, const T* biases, const float* values, const float* totals,
                     uint groups) {
  f32x8 dots = splat(0.0f);
  float shift = 0.0f;
  for (uint g = 0; g < groups; g++) {
    f32x8 dot = splat(0.0f);
    for (uint i = g * GROUP; i < (g + 1) * GROUP; i += 8) {
      dot = mad(codes8<BITS>((const uchar*)codes + i / 8 * BITS), load8(values + i), dot);
    }
    dots = mad(dot, splat(float(scales[g])), dots);
    shift = mad(float(biases[g]), totals[g], shift);
  }
  return sum8(dots) + shift;
}

template <int GROUP>
inline void sum_groups(const float* values, float* totals, uint groups) {
  for (uint g = 0; g < groups; g++) {
    f32x8 total = splat(0.0f);
    for (uint i = g * GROUP; i < (g + 1) * GROUP; i += 8) total += load8(values + i);
    totals[g] = sum8(total);
  }
}
#else
// Loads a piece in its place in the program (`ordered_loads.h`).
template <int BITS>
inline lane_codes<BITS> load_codes(const device uint* from) {
  lane_codes<BITS> codes;
#if HIPRT_TARGET_NVIDIA
  if (BITS % 4 == 0) {
    const piece four = load_once(from);
#pragma unroll
    for (int i = 0; i < 4; i++) codes.words[i % lane_codes<BITS>::WORDS] = four.values[i];
  } else {
#pragma unroll
    for (int i = 0; i < lane_codes<BITS>::WORDS; i++) codes.words[i] = load_now(from + i);
  }
#else
  codes.load(from, 0);
#endif
  return codes;
}

// Eight values of a piece's vector, from where they are staged.
template <typename T>
inline void unpack8(const threadgroup pack<T, 8>& from, thread float* values) {
#pragma unroll
  for (int i = 0; i < 8; i++) values[i] = float(from.values[i]);
}

// sum += coded . values, for codes 8 * part to 8 * part + 7 of a piece: the codes themselves, but for codes of 4 and 8 bits
// on NVIDIA, where a conversion is slow, the float32 1 + code / 2^BITS, whose mantissa begins with the code.
template <int BITS>
inline float dot8(const thread lane_codes<BITS>& codes, uint part, const thread float* values, float sum) {
  if (BITS % 4 != 0) {
#pragma unroll
    for (int i = 0; i < 8; i++) sum = mad(code_of<BITS>(codes.words, 8 * part + i), values[i], sum);
    return sum;
  }
#if HIPRT_TARGET_NVIDIA
  constexpr uint MASK = ((1u << BITS) - 1u) << (23 - BITS);
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const uint word = codes.words[(8 * part + i) * BITS / 32];
    const int move = 23 - BITS - i * BITS % 32;
    const uint moved = move >= 0 ? word << (move & 31) : word >> (-move & 31);
    sum = mad(as_type<float>((moved & MASK) | 0x3f800000u), values[i], sum);
  }
#else
  // Codes moved into bytes: the conversion of a byte to float32 is one instruction on AMD.
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const uint word = codes.words[(8 * part + i) * BITS / 32];
    const uint bytes = BITS == 8 ? word : i % 2 ? (word >> 4) & 0x0f0f0f0fu : word & 0x0f0f0f0fu;
    sum = mad(float((bytes >> (BITS == 8 ? i % 4 * 8 : i / 2 * 8)) & 255u), values[i], sum);
  }
#endif
  return sum;
}
// The dot product with the codes themselves, from dot8's. total: of the values.
template <int BITS>
inline float decoded(float dot, float total) {
#if HIPRT_TARGET_NVIDIA
  return BITS % 4 != 0 ? dot : (dot - total) * float(1 << BITS);
#else
  return dot;
#endif
}

// A vector is staged in units of eight values. Those that a round of 32 lanes reads together lie side by side.
template <int BITS>
inline uint place_of(uint unit) {
  constexpr uint PARTS = lane_codes<BITS>::COUNT / 8;
  const uint at = unit / PARTS;
  return (at / 32 * PARTS + unit % PARTS) * 32 + at % 32;
}

// Stages a thread's unit of `units`, and by lanes together the sums of its pieces. All lanes come here.
template <typename T, int BITS>
inline void stage(const thread pack<T, 8>& values, uint unit, uint units, threadgroup pack<T, 8>* staged,
                  threadgroup float* totals) {
  constexpr uint PARTS = lane_codes<BITS>::COUNT / 8;
  float total = 0.0f;
  if (unit < units) {
#pragma unroll
    for (int i = 0; i < 8; i++) total += float(values.values[i]);
    staged[place_of<BITS>(unit)] = values;
  }
  total += simd_shuffle_xor(total, 1);
  if (PARTS == 4) total += simd_shuffle_xor(total, 2);
  if (unit < units && unit % PARTS == 0) totals[unit / PARTS] = total;
}

// What a lane has read of ROWS rows: a piece of each.
template <typename T, int BITS, int ROWS>
struct Pieces {
  lane_codes<BITS> codes[ROWS];
  T scales[ROWS], biases[ROWS];
};

// sums[r] += share * row r's part of the sum, for the piece `at`.
template <typename T, int BITS, int ROWS>
inline void add_pieces(const thread Pieces<T, BITS, ROWS>& held, uint at, float share, const threadgroup pack<T, 8>* staged,
                       const threadgroup float* totals, thread float* sums) {
  constexpr uint PARTS = lane_codes<BITS>::COUNT / 8;
  float dots[ROWS] = {};
#pragma unroll
  for (uint part = 0; part < PARTS; part++) {
    float values[8];
    unpack8<T>(staged[place_of<BITS>(at * PARTS + part)], values);
#pragma unroll
    for (int r = 0; r < ROWS; r++) dots[r] = dot8<BITS>(held.codes[r], part, values, dots[r]);
  }
  const float total = totals[at];
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    const float dot = decoded<BITS>(dots[r], total);
    sums[r] = mad(share, mad(float(held.scales[r]), dot, float(held.biases[r]) * total), sums[r]);
  }
}
#endif

}  // namespace metal
