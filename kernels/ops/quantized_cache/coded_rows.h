// Rows of a cache in 8 bits: codes from -127 to 127, and for each GROUP of neighbours the scale that they are multiplied with.
namespace metal {

enum { GROUP = 64 };

struct coded_rows {
  const device int8_t* codes;
  const device float* scales;

  // The rows from an element on.
  coded_rows operator+(size_t element) const { return {codes + element, scales + element / GROUP}; }
  float operator[](size_t element) const { return scales[element / GROUP] * float(codes[element]); }
};

#if HIPRT_CPU_LOOPS
// Eight neighbours, which are of one group.
inline f32x8 load8(coded_rows row) {
  typedef int8_t i8x8 __attribute__((vector_size(8)));
  return splat(*row.scales) * __builtin_convertvector(load_as<i8x8>(row.codes), f32x8);
}
#else
// The N neighbours of a row that one lane holds: they are of one group.
template <int N>
struct coded_part {
  float values[N];

  void load(coded_rows row, uint base, uint) {
    const pack<int8_t, N> codes = *(const device pack<int8_t, N>*)(row.codes + base);
    const float scale = row.scales[base / GROUP];
    for (int j = 0; j < N; j++) values[j] = scale * float(codes.values[j]);
  }
};
#endif

}  // namespace metal
