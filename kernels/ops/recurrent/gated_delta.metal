// The gated delta rule over time, on state[v][k] in float32, in place:
//   state *= g;  state += beta * (value - state . key) outer key;  out = state . query
// The rows of a state do not depend on each other: a simdgroup takes one, and each of its lanes every 32nd column.
uint item = threadgroup_position_in_grid.y;  // counts the value heads of all sequences
uint head = item % value_heads;
uint batch = item / value_heads;
uint key_head = head / (value_heads / key_heads);
#if HIPRT_CPU_LOOPS
constexpr uint LANES = 1;
uint lane = 0;
uint row = threadgroup_position_in_grid.x;
#else
constexpr uint LANES = 32;
uint lane = thread_index_in_simdgroup;
uint row = threadgroup_position_in_grid.x * simdgroups_per_threadgroup + simdgroup_index_in_threadgroup;
#endif
if (row >= value_width) return;
constexpr uint MOST = 256 / LANES;
device float* kept = state + (size_t(item) * value_width + row) * key_width;
float cells[MOST];
for (uint j = 0; j < MOST; j++) {
  uint column = j * LANES + lane;
  cells[j] = column < key_width ? kept[column] : 0.0f;
}
for (uint t = 0; t < steps; t++) {
  size_t at = size_t(batch) * steps + t;
  const device T* key = k + (at * key_heads + key_head) * key_width;
  const device T* query = q + (at * key_heads + key_head) * key_width;
  float decay = g[at * value_heads + head];
  float known = 0.0f;
  for (uint j = 0; j < MOST; j++) {
    uint column = j * LANES + lane;
    if (column < key_width) {
      cells[j] *= decay;
      known = mad(cells[j], float(key[column]), known);
    }
  }
#if !HIPRT_CPU_LOOPS
  known = simd_sum(known);
#endif
  float value = float(v[(at * value_heads + head) * value_width + row]);
  float change = (value - known) * float(beta[at * value_heads + head]);
  float answer = 0.0f;
  for (uint j = 0; j < MOST; j++) {
    uint column = j * LANES + lane;
    if (column < key_width) {
      cells[j] = mad(float(key[column]), change, cells[j]);
      answer = mad(cells[j], float(query[column]), answer);
    }
  }
#if !HIPRT_CPU_LOOPS
  answer = simd_sum(answer);
#endif
  if (lane == 0) out[(at * value_heads + head) * value_width + row] = T(answer);
}
for (uint j = 0; j < MOST; j++) {
  uint column = j * LANES + lane;
  if (column < key_width) kept[column] = cells[j];
}
