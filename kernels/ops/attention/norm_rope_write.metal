// Norms and rotates the queries and keys of a row (as rope.metal does), and writes its keys and values into their caches at
// the row's position. Normed values are rounded to T before they are rotated, as two ops would do it.
// is_normed: bit 0 for queries, bit 1 for keys.
constexpr uint WIDEST = 256;
const uint half_dims = dims / 2;
#if HIPRT_CPU_LOOPS
const uint row = threadgroup_position_in_grid.x;
const int place = position[row];
float2 angles[WIDEST / 2];
float ready[WIDEST];
for (uint i = 0; i < half_dims; i++) angles[i] = cos_sin(frequencies[i] * ulong(place));
for (uint head = 0; head < heads + 2 * kv_heads; head++) {
  const bool is_query = head < heads, is_value = head >= heads + kv_heads;
  if (!is_query && (place < 0 || place >= int(capacity))) break;
  const device T* from = x + size_t(row) * columns + size_t(head) * width;
  const size_t cached = (size_t(row) * kv_heads + (head - heads) % max(kv_heads, 1u)) * capacity + place;
  device T* to = is_query ? out + (size_t(row) * heads + head) * width : (is_value ? values : keys) + cached * width;
  if (is_value) {
    for (uint i = 0; i < width; i++) to[i] = from[i];
    continue;
  }
  const bool has_norm = (is_normed & (is_query ? 1u : 2u)) != 0;
  const device T* weight = is_query ? q_norm : k_norm;
  float sum = 0.0f;
  for (uint i = 0; i < width; i++) sum = mad(float(from[i]), float(from[i]), sum);
  const float scale = rsqrt(sum / float(width) + eps);
  for (uint i = 0; i < width; i++) {
    ready[i] = has_norm ? float(T(float(from[i]) * scale * float(weight[i]))) : float(from[i]);
  }
  for (uint i = 0; i < half_dims; i++) {
    const float a = ready[i], b = ready[i + half_dims];
    to[i] = T(a * angles[i].x - b * angles[i].y);
    to[i + half_dims] = T(b * angles[i].x + a * angles[i].y);
  }
  for (uint i = dims; i < width; i++) to[i] = T(ready[i]);
}
#else
// A simdgroup takes a head. A lane takes pairs of elements that are rotated together, then elements that are not rotated.
constexpr uint ITEMS = WIDEST / 32;
const uint lane = thread_index_in_simdgroup;
const uint row = threadgroup_position_in_grid.y;
const uint head = threadgroup_position_in_grid.x * simdgroups_per_threadgroup + simdgroup_index_in_threadgroup;
begin_next();
const bool is_query = head < heads, is_value = head >= heads + kv_heads;
const int place = position[row];
const bool is_kept = is_query || (place >= 0 && place < int(capacity));
const bool has_norm = !is_value && (is_normed & (is_query ? 1u : 2u)) != 0;
const device T* from = x + size_t(row) * columns + size_t(head) * width;
const device T* weight = is_query ? q_norm : k_norm;
const size_t kv_head = size_t(row) * kv_heads + (is_query ? 0u : (head - heads) % kv_heads);
const size_t cached = kv_head * capacity + (is_kept ? place : 0);
device T* to = is_query ? out + (size_t(row) * heads + head) * width : (is_value ? values : keys) + cached * width;
const uint items = width - half_dims;
// The angles and the weights of the norm do not depend on the node before.
float left[ITEMS], right[ITEMS], left_weight[ITEMS], right_weight[ITEMS];
float2 angles[ITEMS];
#pragma unroll
for (uint j = 0; j < ITEMS; j++) {
  const uint i = j * 32 + lane;
  const bool is_pair = i < half_dims;
  if (is_pair) angles[j] = cos_sin(frequencies[i] * ulong(place));
  left_weight[j] = has_norm && i < items ? float(weight[is_pair ? i : i + half_dims]) : 1.0f;
  right_weight[j] = has_norm && is_pair ? float(weight[i + half_dims]) : 1.0f;
}
wait_for_inputs();
if (head >= heads + 2 * kv_heads) return;
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
  if (has_norm) {
    a = float(T(a * scale * left_weight[j]));
    if (is_pair) b = float(T(b * scale * right_weight[j]));
  }
  if (is_pair && !is_value) {
    to[i] = T(a * angles[j].x - b * angles[j].y);
    to[i + half_dims] = T(b * angles[j].x + a * angles[j].y);
  } else {
    to[first] = T(a);
    if (is_pair) to[i + half_dims] = T(b);
  }
}
#endif
