// The product of a piece of a row with a piece of a vector.
namespace metal {

// The integer product of fields with digits, from the highest digits on. `piece` is what `stage_unit` says of a piece of x.
HIPRT_INLINE int dot_of(const words<VALUES * FIELD / 32>& fields, const quad (&digits)[DIGITS * PACKS], const quad& piece) {
  int dot = 0;
#pragma unroll
  for (uint d = DIGITS; d-- > 0;) {
    dot = (dot << FIELD) + (d == 0 ? int(piece.values[2]) : 0);
#pragma unroll
    for (uint w = 0; w < 4 * PACKS; w++) {
      dot = dot_codes<BITS>(fields.values[w], digits[d * PACKS + w / 4].values[w % 4], dot);
    }
  }
  return dot;
}

// sum plus the product with codes that are spread to fields; the bits of their scale and their bias are given.
HIPRT_INLINE float add_product(float sum, const words<VALUES * FIELD / 32>& fields, ushort scale, ushort bias,
                               const quad (&digits)[DIGITS * PACKS], const quad& piece) {
  const float step = as_type<float>(piece.values[0]), total = as_type<float>(piece.values[1]);
  const int dot = dot_of(fields, digits, piece);
  const float by = float(number_of_bits<T>(scale)), plus = float(number_of_bits<T>(bias));
  return mad(by * step, float(dot), mad(plus, total, sum));
}

}  // namespace metal
