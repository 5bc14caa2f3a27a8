// Moves each text to its next position: the next token is the prompt's while there is one left, then the one that was drawn.
// step: for each text its token, position, prompt length and end, text by text within each. Nothing is written past the end.
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
