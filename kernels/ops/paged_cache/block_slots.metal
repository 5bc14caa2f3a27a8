// out[row] = where in a pool of blocks the position of a row lies, or -1 where its sequence has no block for it. `stride`: from
// the table of one row to that of the next, 0 where all rows are of one sequence.
const uint row = thread_position_in_grid.x;
if (row < rows) {
  const int place = position[row];
  int slot = -1;
  if (place >= 0 && (uint(place) >> shift) < blocks) {
    const int block = table[size_t(row) * stride + (uint(place) >> shift)];
    if (block >= 0) slot = int((uint(block) << shift) + (uint(place) & ((1u << shift) - 1u)));
  }
  out[row] = slot;
}
