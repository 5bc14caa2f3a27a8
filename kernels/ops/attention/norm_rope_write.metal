// Of a row of queries, keys and values: norm and rotation (as rope.metal) of the first two, keys and values into their
// caches at the row's position. Normed values are rounded to T before they turn, as two ops would.
constexpr uint WIDEST = 256;
const uint half_dims = dims / 2;
#if HIPRT_CPU_LOOPS
const uint line = threadgroup_position_in_grid.x;
const int place = position[line];
float2 turns[WIDEST / 2];
float ready[WIDEST];
for (uint i = 0; i < half_dims; i++) turns[i] = turn_of(frequencies[i] * ulong(place));
for (uint head = 0; head < heads + 2 * pairs; head++) {
  const bool is_query = head < heads, is_value = head >= heads + pairs;
  if (!is_query && (place < 0 || place >= int(capacity))) break;
  const device T* from = x + size_t(line) * stride + size_t(head) * width;
  const size_t cached = (size_t(line) * pairs + (head - heads) % max(pairs, 1u)) * capacity + place;
  device T* to = is_query ? out + (size_t(line) * heads + head) * width : (is_value ? values : keys) + cached * width;
  if (is_value) {
    for (uint i = 0; i < width; i++) to[i] = from[i];
    continue;
  }
  const bool is_normed = (flags & (is_query ? 1u : 2u)) != 0;
  const device T* weight = is_query ? q_norm : k_norm;
  float sum = 0.0f;
  for (uint i = 0; i < width; i++) sum = mad(float(from[i]), float(from[i]), sum);
  const float scale = rsqrt(sum / float(width) + eps);
  for (uint i = 0; i < width; i++) {
    ready[i] = is_normed ? float(T(float(from[i]) * scale * float(weight[i]))) : float(from[i]);
  }
  for (uint i = 0; i < half_dims; i++) {
    const float a = ready[i], b = ready[i + half_dims];
    to[i] = T(a * turns[i].x - b * turns[i].y);
    to[i + half_dims] = T(b * turns[i].x + a * turns[i].y);
  }
  for (uint i = dims; i < width; i++) to[i] = T(ready[i]);
}
#else
// A simdgroup takes a head; a lane takes pairs that turn together, and what is left of those that do not.
constexpr uint ITEMS = WIDEST / 32;
const uint lane = thread_index_in_simdgroup;
const uint line = threadgroup_position_in_grid.y;
const uint head = threadgroup_position_in_grid.x * simdgroups_per_threadgroup + simdgroup_index_in_threadgroup;
begin_next();
const bool is_query = head < heads, is_value = head >= heads + pairs;
const int place = position[line];
const bool is_kept = is_query || (place >= 0 && place < int(capacity));
const bool is_normed = !is_value && (flags & (is_query ? 1u : 2u)) != 0;
const device T* from = x + size_t(line) * stride + size_t(head) * width;
const device T* weight = is_query ? q_norm : k_norm;
const size_t cached = (size_t(line) * pairs + (is_query ? 0u : (head - heads) % pairs)) * capacity + (is_kept ? place : 0);
device T* to = is_query ? out + (size_t(line) * heads + head) * width : (is_value ? values : keys) + cached * width;
const uint items = width - half_dims;
// What does not depend on the node before: the angles, and the weights of the norm.
float left[ITEMS], right[ITEMS], left_weight[ITEMS], right_weight[ITEMS];
float2 turns[ITEMS];
#pragma unroll
for (uint j = 0; j < ITEMS; j++) {
  const uint i = j * 32 + lane;
  const bool is_pair = i < half_dims;
  if (is_pair) turns[j] = turn_of(frequencies[i] * ulong(place));
  left_weight[j] = is_normed && i < items ? float(weight[is_pair ? i : i + half_dims]) : 1.0f;
  right_weight[j] = is_normed && is_pair ? float(weight[i + half_dims]) : 1.0f;
}
wait_for_inputs();
if (head >= heads + 2 * pairs) return;
float sum = 0.0f;
#pragma unroll
for (uint j = 0; j < ITEMS; j++) {
  const uint i = j * 32 + lane;
  const bool is_pair = i < half_dims;
  left[j] = i < items ? float(from[is_pair ? i : i + half_dims]) : 0.0f;
  right[j] = is_pair ? float(from[i + half_dims]) : 0.0f;
  sum = mad(left[j], left[j], mad(right[j], right[j], sum));
}
const float scale = rsqrt(simd_sum(sum) / float(width) + eps);
#pragma unroll
for (uint j = 0; j < ITEMS; j++) {
  const uint i = j * 32 + lane;
  const bool is_pair = i < half_dims;
  if (i >= items || !is_kept) continue;
  const uint first = is_pair ? i : i + half_dims;
  float a = left[j], b = right[j];
  if (is_normed) {
    a = float(T(a * scale * left_weight[j]));
    if (is_pair) b = float(T(b * scale * right_weight[j]));
  }
  if (is_pair && !is_value) {
    to[i] = T(a * turns[j].x - b * turns[j].y);
    to[i + half_dims] = T(b * turns[j].x + a * turns[j].y);
  } else {
    to[first] = T(a);
    if (is_pair) to[i + half_dims] = T(b);
  }
}
#endif
