// Where a tile lies in a matrix, or in those of a stack that are chosen, and where lanes load pieces of its rows.
namespace metal {

constexpr uint ROW_BYTES = WIDTH / 8 * BITS, SCALE_BYTES = WIDTH / GROUP * sizeof(T);  // of a row

// Bytes from a tile's first row to each. They are the same in every tile, so that one offset of a lane is enough for all rows.
HIPRT_INLINE void find_rows(ulong (&codes)[ROWS], ulong (&scales)[ROWS], uint columns) {
#pragma unroll
  for (uint r = 0; r < ROWS; r++) {
    const ulong row = r < OUTPUTS ? r : columns + r - OUTPUTS;
    codes[r] = in_scalar(row * ROW_BYTES);
    scales[r] = in_scalar(row * SCALE_BYTES);
  }
}

// Where a part of a tile begins: its row, the piece that the first step begins at, and the first and last piece that a lane
// may load. Loads are not left out: behind a branch around some of them, the hardware's count of loads is not known, and
// all are waited for. A lane without a piece loads one that another lane has; of a tile that does not exist, all lanes load
// the first piece of the last one.
struct dot_place {
  uint row, base, first, last;
};

// The first column of a tile. The last tile lies at the end, so that it may begin inside the one before.
HIPRT_INLINE uint column_of(uint tile, uint columns) {
  return min((CHOICE == GATHERED ? tile % TILES_EACH : tile) * OUTPUTS, columns - OUTPUTS);
}
HIPRT_INLINE dot_place place_of(uint tile, uint phase, uint end_tile, uint columns, const threadgroup uint* first_rows) {
  const uint there = min(tile, end_tile - 1), first = phase * PART;
  const uint row = column_of(there, columns) + (CHOICE == GATHERED ? first_rows[there / TILES_EACH] : 0u);
  const uint last = PHASES == 1 ? ALL - 1 : min(first + PART, ALL) - 1;
  return dot_place{row, first / PACE * PACE, first, tile < end_tile ? last : first};
}

}  // namespace metal
