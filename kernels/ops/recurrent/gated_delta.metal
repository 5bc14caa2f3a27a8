// The gated delta rule over time, on state[v][k] in float32, in place:
//   state *= g;  state += beta * (value - state . key) outer key;  out = state . query
// The rows of a state do not depend on each other: a simdgroup takes one, and each of its lanes every 32nd column.
const uint item = threadgroup_position_in_grid.y;  // counts the value heads of all sequences
const uint head = item % value_heads;
const uint batch = item / value_heads;
const uint key_head = head / (value_heads / key_heads);
#if HIPRT_CPU_LOOPS
constexpr uint LANES = 1;
const uint lane = 0;
const uint given = threadgroup_position_in_grid.x;
#else
constexpr uint LANES = 32;
const uint lane = thread_index_in_simdgroup;
const uint given = threadgroup_position_in_grid.x * simdgroups_per_threadgroup + simdgroup_index_in_threadgroup;
#endif
const uint row = min(given, value_width - 1);
device float* kept = state + (size_t(item) * value_width + row) * KEY;
delta_step<T, KEY, LANES> now, next;
float cells[now.COUNT];
#pragma unroll
for (uint j = 0; j < now.COUNT; j++) {
  const uint column = j * LANES + lane;
  cells[j] = column < KEY ? kept[column] : 0.0f;
}
wait_for_inputs();
begin_next();
if (given >= value_width || steps == 0) return;
size_t keys_at = (size_t(batch) * steps * key_heads + key_head) * KEY;
size_t heads_at = size_t(batch) * steps * value_heads + head;
next.load(k + keys_at, q + keys_at, v + heads_at * value_width + row, g + heads_at, beta + heads_at, lane);
for (uint t = 0; t < steps; t++) {
  // The next step is on its way while this one is computed.
  now = next;
  device T* const to = out + heads_at * value_width + row;
  keys_at += t + 1 < steps ? size_t(key_heads) * KEY : 0;
  heads_at += t + 1 < steps ? value_heads : 0;
  next.load(k + keys_at, q + keys_at, v + heads_at * value_width + row, g + heads_at, beta + heads_at, lane);
  float known = 0.0f;
#pragma unroll
  for (uint j = 0; j < now.COUNT; j++) {
    cells[j] *= now.kept;
    if (j * LANES + lane < KEY) known = mad(cells[j], float(now.keys[j]), known);
  }
#if !HIPRT_CPU_LOOPS
  known = simd_sum(known);
#endif
  const float change = (float(now.value) - known) * now.corrected;
  float answer = 0.0f;
#pragma unroll
  for (uint j = 0; j < now.COUNT; j++) {
    if (j * LANES + lane >= KEY) continue;
    cells[j] = mad(float(now.keys[j]), change, cells[j]);
    answer = mad(cells[j], float(now.queries[j]), answer);
  }
#if !HIPRT_CPU_LOOPS
  answer = simd_sum(answer);
#endif
  if (lane == 0) *to = T(answer);
}
#pragma unroll
for (uint j = 0; j < now.COUNT; j++) {
  const uint column = j * LANES + lane;
  if (column < KEY) kept[column] = cells[j];
}
