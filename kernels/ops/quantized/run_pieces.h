// Products with the matrices of a stack, many rows of which neighbours are multiplied with the same matrix: a run.
namespace metal {

// Where each row of the results takes its vector and its matrix from; a matrix of right_count does not exist.
struct stacked_rows {
  uint count, lines, given;
  uint left_count, left_divisor, left_modulus, right_count, right_divisor, right_modulus;
  const device uint* left_indices;
  const device uint* right_indices;
  const device uint* order;

  uint item(uint row) const { return (given & 4u) != 0 ? order[row] : row; }
  uint left(uint item) const {
    return matrix_of(item / lines, left_divisor, left_modulus, (given & 1u) != 0, left_indices);
  }
  uint vector(uint item) const {
    const uint found = left(item);
    return found < left_count ? found * lines + item % lines : 0u;
  }
  uint matrix(uint item) const {
    if (left(item) >= left_count) return right_count;
    return min(matrix_of(item / lines, right_divisor, right_modulus, (given & 2u) != 0, right_indices), right_count);
  }
  // Whether a run starts with a row, or the rows end before it.
  bool starts_run(uint row) const {
    return row == 0 || row >= count || matrix(item(row)) != matrix(item(row - 1));
  }
};

// The pieces of runs that a threadgroup takes which has a window of ROWS rows. A run of ROWS rows at most is one piece, of
// the threadgroup in whose window it starts; a longer one is cut where windows end. Rows are counted from ROWS before the
// window on; `starts` has a bit for each of 3 * ROWS, set where a run starts.
template <uint ROWS>
struct run_pieces {
  const threadgroup uint* starts;

  bool starts_at(uint row) const { return (starts[row / 32] >> row % 32 & 1u) != 0; }
  uint next_start(uint row) const {
    for (row++; row < 3 * ROWS; row = (row | 31u) + 1) {
      uint bits = starts[row / 32] >> row % 32;
      if (bits == 0) continue;
      for (; (bits & 1u) == 0; bits >>= 1) row++;
      return row;
    }
    return 3 * ROWS;
  }
  // Where the window's first piece starts: behind a run that is a piece of the threadgroup before.
  uint first() const {
    if (starts_at(ROWS)) return ROWS;
    const uint end = next_start(ROWS);
    return end <= 2 * ROWS && next_start(end - ROWS - 1) < ROWS ? end : ROWS;
  }
  uint end(uint row) const {
    const uint next = next_start(row);
    return starts_at(row) && next - row <= ROWS ? next : min(next, 2 * ROWS);
  }
};

}  // namespace metal
