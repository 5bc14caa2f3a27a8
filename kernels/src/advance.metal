// The next token comes from the prompt while there is one left, then from the sampler; nothing is written past the end.
if (thread_position_in_grid.x == 0) {
  int next_position = int(uint(step[1]) + 1u);
  if (next_position >= 0 && next_position < capacity) {
    int next = next_position < step[2] ? tokens[next_position] : sampled[0];
    tokens[next_position] = next;
    step[0] = next;
    step[1] = next_position;
  }
}
