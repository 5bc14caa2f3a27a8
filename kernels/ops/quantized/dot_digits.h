// Numbers of x as integers with a sign, in DIGITS digits of FIELD bits, which integer dot instructions multiply with the
// fields of codes. What of x belongs to a piece has one step from integer to integer.
namespace metal {

// The integers' largest magnitude, whose digits are all one less than half of their range; and the power of two above.
constexpr int LIMIT = PLANES == 4 ? (FIELD == 4 ? 0x7777 : 0x7f7f) : (FIELD == 4 ? 0x77 : 0x7f);
constexpr int ABOVE = PLANES == 4 ? 15 : 7;
// Half of each digit's range on top makes digits without a sign, which get theirs by a change of their highest bits.
constexpr uint HALVES = PLANES == 4 ? (FIELD == 4 ? 0x8888u : 0x8080u) : (FIELD == 4 ? 0x88u : 0x80u);
constexpr uint SIGNS = HALVES | HALVES << 16;

// What one of the integers stands for, and by what numbers are multiplied to become integers.
struct integer_step {
  float step, up;
};
// Of a piece, by its largest magnitude. It is a power of two, so that most of bfloat16 is exact; integers of two planes have no
// bit to spare for that.
HIPRT_INLINE integer_step step_of(float largest) {
  const uint exponent = min(max(as_type<uint>(largest * (float(1 << ABOVE) / LIMIT)) >> 23, 20u), 240u);
  const bool is_coarse = PLANES == 2 && largest > 1e-30f;
  const float up = is_coarse ? float(LIMIT) / largest : as_type<float>((253u + ABOVE - exponent) << 23);
  const float step = is_coarse ? largest / float(LIMIT) : as_type<float>((exponent + 1u - ABOVE) << 23);
  return {step, up};
}

// Eight integers, in the low bits of words, with HALVES on top.
struct eight_integers {
  uint raw[8];
  float total;  // their sum; NaN if one of the numbers is not finite
};
// Added to 1.5 * 2^23 a number is rounded, and its integer is in the low bits.
HIPRT_INLINE eight_integers rounded(const float (&number)[8], float up) {
  eight_integers found;
  uint sum = 0, top = 0;
  for (uint i = 0; i < 8; i++) {
    found.raw[i] = as_type<uint>(mad(number[i], up, 12582912.0f + float(HALVES)));
    sum += found.raw[i];
    top = max(top, found.raw[i]);
  }
  found.total = top > 0x4b800000u ? as_type<float>(0x7fc00000u) : float(int(sum - 8u * (0x4b400000u + HALVES)));
  return found;
}

// Over the lanes that stage a piece.
HIPRT_INLINE float largest_of_piece(float v) {
  v = fmax(v, word_across<1>(v));
  if (LANES >= 4) v = fmax(v, word_across<2>(v));
  if (LANES == 8) v = fmax(v, word_across<4>(v));
  return v;
}
HIPRT_INLINE float sum_of_piece(float v) {
  v = add_near<1>(v);
  if (LANES >= 4) v = add_near<2>(v);
  if (LANES == 8) v = add_near<4>(v);
  return v;
}

// Gives the digits of the eight integers of lane `part` of a piece to `put`, a word at a time: the place of the digits, from
// the lowest on, the word of a piece's, and the digits. All lanes come here, and those without a piece put nothing.
template <typename Put>
HIPRT_INLINE void put_digits(const uint (&raw)[8], uint part, bool is_there, const Put& put) {
  if (FIELD == 4) {
    // Two numbers a word; then of two words the even digits and the odd ones, and of these the bytes of a digit. Codes of
    // 2 bits have those with even numbers in the lower half of a word.
    const auto number_at = [&](uint i) { return raw[BITS == 2 ? i % 4 * 2 + i / 4 : i]; };
    uint even[2], odd[2];
    for (uint h = 0; h < 2; h++) {
      const uint a = select_bytes(number_at(4 * h + 2), number_at(4 * h), 0x05040100u) ^ SIGNS;
      const uint b = select_bytes(number_at(4 * h + 3), number_at(4 * h + 1), 0x05040100u) ^ SIGNS;
      even[h] = (a & 0x0f0f0f0fu) | (b << 4 & 0xf0f0f0f0u);
      odd[h] = (a >> 4 & 0x0f0f0f0fu) | (b & 0xf0f0f0f0u);
    }
    if (is_there || BITS == 2) {
      for (uint d = 0; d < DIGITS; d++) {
        const uint* const from = d % 2 ? odd : even;
        uint digits = select_bytes(from[1], from[0], d / 2 ? 0x07050301u : 0x06040200u);
        // Two lanes have what belongs to one word of codes: one takes the even numbers of both, the other the odd ones.
        if (BITS == 2) digits = select_bytes(digits, word_across<1>(digits), part % 2 ? 0x07060302u : 0x01000504u);
        if (is_there) put(d, part, digits);
      }
    }
  } else {
    for (uint h = 0; h < 2; h++) {
      const uint a = select_bytes(raw[4 * h + 1], raw[4 * h], 0x05040100u) ^ SIGNS;
      const uint b = select_bytes(raw[4 * h + 3], raw[4 * h + 2], 0x05040100u) ^ SIGNS;
      for (uint d = 0; d < DIGITS && is_there; d++) {
        put(d, part * 2 + h, select_bytes(b, a, d ? 0x07050301u : 0x06040200u));
      }
    }
  }
}

}  // namespace metal
