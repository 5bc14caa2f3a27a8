// The sums of a tile's rows: which lane has which, and how simdgroups of a team add theirs up by way of threadgroup memory.
namespace metal {

constexpr uint SUMS = 2 * MEMBERS * ROWS;  // that are left of a vector, of two rounds

// The row of a tile whose sum a lane gets, and whether it is the first lane with it. What a row gates is 8 lanes away.
HIPRT_INLINE uint row_of(uint lane) { return lane % 16 / (16 / ROWS); }
HIPRT_INLINE bool is_first_of_row(uint lane) { return lane < 16 && lane % (16 / ROWS) == 0; }

// What a simdgroup leaves for the first one of its team.
HIPRT_INLINE void leave_sums(threadgroup float* to, const float (&found)[VECTORS], bool has_row) {
#pragma unroll
  for (uint v = 0; v < uint(VECTORS); v++) {
    if (has_row) to[v * SUMS] = found[v];
  }
}
// What that one adds to its own, whose place is given.
HIPRT_INLINE void add_simdgroups(float (&found)[VECTORS], const threadgroup float* from) {
#pragma unroll
  for (uint v = 0; v < uint(VECTORS); v++) {
#pragma unroll
    for (uint s = 1; s < SPLIT; s++) found[v] += from[v * SUMS + s * ROWS];
  }
}

}  // namespace metal
