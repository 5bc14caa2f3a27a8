// Metal's matrices of 8 x 8 that a whole simdgroup holds. The text is valid Metal, because the Metal checker reads it too.
// Each lane holds two neighbours of a row; no other file relies on that.
namespace metal {

template <typename T, int COLS, int ROWS>
struct simdgroup_matrix {
  static_assert(COLS == 8 && ROWS == 8, "a simdgroup's matrices have 8 columns and 8 rows");
  simdgroup_matrix() = default;
  explicit simdgroup_matrix(T diagonal) {
    for (uint i = 0; i < 2; i++) hiprt_at[i] = hiprt_row() == hiprt_column() + i ? diagonal : T(0);
  }
  T hiprt_at[2];

  static uint hiprt_row() { return (hiprt::lane_index() >> 1 & 3u) | (hiprt::lane_index() >> 4 & 1u) << 2; }
  static uint hiprt_column() { return (hiprt::lane_index() & 1u) << 1 | (hiprt::lane_index() >> 3 & 1u) << 2; }
  static uint hiprt_lane(uint row, uint column) {
    return (column >> 1 & 1u) | (row & 3u) << 1 | (column >> 2 & 1u) << 3 | (row >> 2 & 1u) << 4;
  }
};
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;

template <typename T, int COLS, int ROWS>
inline simdgroup_matrix<T, COLS, ROWS> make_filled_simdgroup_matrix(T value) {
  simdgroup_matrix<T, COLS, ROWS> filled;
  filled.hiprt_at[0] = filled.hiprt_at[1] = value;
  return filled;
}

// The origin is a column and a row of the array: of the matrix, or of the transposed one.
#define HIPRT_MATRIX_MEMORY(space)                                                                               \
  template <typename T>                                                                                          \
  inline void simdgroup_load(thread simdgroup_matrix<T, 8, 8>& into, const space T* from, ulong elements_per_row = 8, \
                             ulong2 matrix_origin = 0, bool transpose_matrix = false) {                          \
    ulong row = into.hiprt_row(), column = into.hiprt_column();                                                  \
    from += matrix_origin.y * elements_per_row + matrix_origin.x;                                                \
    for (ulong i = 0; i < 2; i++) {                                                                              \
      into.hiprt_at[i] =                                                                                         \
          transpose_matrix ? from[(column + i) * elements_per_row + row] : from[row * elements_per_row + column + i]; \
    }                                                                                                            \
  }                                                                                                              \
  template <typename T>                                                                                          \
  inline void simdgroup_store(simdgroup_matrix<T, 8, 8> matrix, space T* to, ulong elements_per_row = 8,         \
                              ulong2 matrix_origin = 0, bool transpose_matrix = false) {                         \
    ulong row = matrix.hiprt_row(), column = matrix.hiprt_column();                                              \
    to += matrix_origin.y * elements_per_row + matrix_origin.x;                                                  \
    for (ulong i = 0; i < 2; i++) {                                                                              \
      to[transpose_matrix ? (column + i) * elements_per_row + row : row * elements_per_row + column + i] =       \
          matrix.hiprt_at[i];                                                                                    \
    }                                                                                                            \
  }
HIPRT_MATRIX_MEMORY(device)
#if HIPRT_TARGET_METAL
HIPRT_MATRIX_MEMORY(threadgroup)
#endif
#undef HIPRT_MATRIX_MEMORY

// Sums are float32, go from the first column of `a` to its last, and are rounded once.
template <typename D, typename A, typename B, typename C>
inline void simdgroup_multiply_accumulate(thread simdgroup_matrix<D, 8, 8>& d, simdgroup_matrix<A, 8, 8> a,
                                          simdgroup_matrix<B, 8, 8> b, simdgroup_matrix<C, 8, 8> c HIPRT_AT) {
  typedef simdgroup_matrix<float, 8, 8> place;
  uint row = place::hiprt_row(), column = place::hiprt_column();
  float first = float(c.hiprt_at[0]), second = float(c.hiprt_at[1]);
  vec<A, 2> left = vec<A, 2>(a.hiprt_at[0], a.hiprt_at[1]);
  vec<B, 2> right = vec<B, 2>(b.hiprt_at[0], b.hiprt_at[1]);
  for (uint k = 0; k < 8; k += 2) {
    vec<A, 2> of_row = hiprt::of_lane(left, place::hiprt_lane(row, k) HIPRT_HERE);
    for (uint i = 0; i < 2; i++) {
      vec<B, 2> of_column = hiprt::of_lane(right, place::hiprt_lane(k + i, column) HIPRT_HERE);
      first = fma(float(of_row[i]), float(of_column[0]), first);
      second = fma(float(of_row[i]), float(of_column[1]), second);
    }
  }
  d.hiprt_at[0] = D(first);
  d.hiprt_at[1] = D(second);
}
template <typename D, typename A, typename B>
inline void simdgroup_multiply(thread simdgroup_matrix<D, 8, 8>& d, simdgroup_matrix<A, 8, 8> a,
                               simdgroup_matrix<B, 8, 8> b HIPRT_AT) {
  simdgroup_multiply_accumulate(d, a, b, make_filled_simdgroup_matrix<float, 8, 8>(0.0f) HIPRT_HERE);
}

}  // namespace metal
