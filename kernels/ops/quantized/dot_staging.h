// x in threadgroup memory: weighed, and brought to digits by units of eight numbers, which are what a thread reads at a time.
namespace metal {

HIPRT_INLINE float number_of(const quad& unit, uint i) {
  return i % 2 ? high_of<T>(unit.values[i / 2]) : low_of<T>(unit.values[i / 2]);
}

// The numbers of a unit, weighed by the norm and by a share of summed matrices; their largest magnitude, and the sum of the
// squares that the norm is of. Where x is staged in parts, `squares_of` has those.
HIPRT_INLINE void weigh(float (&number)[8], float& largest, float& squared, const quad own, const quad weights, float share) {
  for (uint i = 0; i < 8; i++) {
    number[i] = number_of(own, i);
    if (CHOICE == SUMMED) number[i] *= share;
    if (NORMED) {
      if (PHASES == 1) squared = mad(number[i], number[i], squared);
      number[i] *= number_of(weights, i);
    }
    largest = fmax(largest, abs(number[i]));
  }
}

// Brings a unit of a part of a vector to digits. A vector's quads of digits lie by place, each for all of the part's pieces;
// `pieces` has of a piece the step of its integers, its sum, and that of its integers where codes have a centre.
HIPRT_INLINE void stage_unit(threadgroup quad* staged, threadgroup quad* pieces, uint v, uint unit, bool is_there,
                             const float (&number)[8], float largest) {
  const integer_step one = step_of(largest_of_piece(largest));
  const eight_integers integers = rounded(number, one.up);
  const float total = sum_of_piece(integers.total), step = one.step;
  const uint at = unit / LANES, part = unit % LANES;
  threadgroup uint* const to = (threadgroup uint*)(staged + v * (DIGITS * PACKS * PART) + at);
  put_digits(integers.raw, part, is_there, [&](uint d, uint word, uint digits) {
    to[(d * PACKS + word / 4) * (4 * PART) + word % 4] = digits;
  });
  if (is_there && part == 0) {
    pieces[v * PART + at] = {{as_type<uint>(step), as_type<uint>(total * step), uint(int(total) * CODE_CENTRE<BITS>), 0u}};
  }
}

// The sum of the squares of a vector's units that the thread stages.
HIPRT_INLINE float squares_of(const device quad* vector, uint index) {
  float square = 0.0f;
#pragma unroll 1
  for (uint unit = index; unit < UNITS; unit += THREADS) {
    const quad own = load_now(vector + unit);
    float squared = 0.0f;
    for (uint i = 0; i < 8; i++) {
      const float number = number_of(own, i);
      squared = mad(number, number, squared);
    }
    square += squared;
  }
  return square;
}

}  // namespace metal
