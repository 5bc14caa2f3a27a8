// Numbers of x in 16 bits for integer matrix instructions. Those that share a scale of the codes become whole multiples of one
// unit, of which a plane has the upper and another the lower bytes.
namespace metal {

// The exponent of a unit. The largest number becomes at most 32,512: 127 times 256, so that its upper byte has 8 bits when
// rounded.
HIPRT_INLINE uint unit_exponent(float largest) { return min(max(as_type<uint>(largest * 1.008f) >> 23, 20u), 240u); }
// What the products of whole numbers are multiplied by; codes of 4 bits are multiplied as 16 times as much.
template <int BITS>
HIPRT_INLINE float unit_of(uint exponent) {
  return as_type<float>((exponent - 14u - (BITS == 4 ? 4u : 0u)) << 23);
}

// The bytes of eight numbers: two words of the upper ones, and two of the lower ones.
struct byte_planes {
  pack<uint, 2> upper, lower;
};
// What numbers are multiplied by to become multiples of a unit.
HIPRT_INLINE float units_in_one(uint exponent) { return as_type<float>((268u - exponent) << 23); }
// Words have numbers in the order of their codes: of 4 bits the even ones and the odd ones, else one half and the other. Lower
// bytes have a sign where IS_SIGNED, else upper ones are rounded down.
template <int BITS, bool IS_SIGNED = true>
HIPRT_INLINE byte_planes planes_of(const float (&numbers)[8], float up) {
  // Added to 2^23 times 1.5, a number is rounded to a whole one in the lower 16 bits; 2^7 more round its upper byte.
  uint raw[8];
  for (int i = 0; i < 8; i++) raw[i] = as_type<uint>(mad(numbers[i], up, IS_SIGNED ? 12583040.0f : 12582912.0f));
  byte_planes found;
  for (int w = 0; w < 2; w++) {
    constexpr int APART = BITS == 4 ? 2 : 1;
    const int first = BITS == 4 ? w : 4 * w;
    const uint a = low_pair(raw[first], raw[first + APART]), b = low_pair(raw[first + 2 * APART], raw[first + 3 * APART]);
    found.upper.values[w] = high_bytes(a, b);
    found.lower.values[w] = low_bytes(a, b) ^ (IS_SIGNED ? 0x80808080u : 0u);
  }
  return found;
}

}  // namespace metal
