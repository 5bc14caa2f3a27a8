// The next token comes from the prompt while there is one left, then from the sampler; nothing is written past the end.
const uint row = thread_position_in_grid.x;
if (row < rows) {
  device int* text = tokens + size_t(row) * capacity;
  int next_position = int(uint(step[rows + row]) + 1u);
  if (next_position >= 0 && next_position < capacity) {
    int next = next_position < step[2 * rows + row] ? text[next_position] : sampled[row];
    text[next_position] = next;
    step[row] = next;
    step[rows + row] = next_position;
  }
}
