// Norms and rotates the queries and keys of a row (as norm_rope_write.metal does), and writes the codes and scales of its keys
// and values into their caches at the row's position. Keys and values are rounded to T before they become codes.
// is_normed: bit 0 for queries, bit 1 for keys. own_caches: 0 where all rows have the same caches.
constexpr uint WIDEST = 256;
constexpr uint GROUP = 64;
const uint half_dims = dims / 2, groups = width / GROUP;
#if HIPRT_CPU_LOOPS
const uint row = threadgroup_position_in_grid.x;
const int place = position[row];
float2 angles[WIDEST / 2];
T made[WIDEST];
for (uint i = 0; i < half_dims; i++) angles[i] = cos_sin(frequencies[i] * ulong(place));
for (uint head = 0; head < heads + 2 * kv_heads; head++) {
  const bool is_query = head < heads, is_value = head >= heads + kv_heads;
  if (!is_query && (place < 0 || place >= int(capacity))) break;
  const T* weight = (is_normed & (is_query ? 1u : 2u)) == 0 ? nullptr : is_query ? q_norm : k_norm;
  const T* from = x + size_t(row) * columns + size_t(head) * width;
  if (!is_value) {
    T* to = is_query ? out + (size_t(row) * heads + head) * width : made;
    turn(from, to, weight, angles, eps, width, half_dims);
    from = made;
  }
  if (is_query) continue;
  const size_t cached = (size_t(row * own_caches) * kv_heads + (head - heads) % kv_heads) * capacity + place;
  int8_t* codes = (is_value ? values : keys) + cached * width;
  float* scales = (is_value ? value_scales : key_scales) + cached * groups;
  for (uint g = 0; g < groups; g++) {
    float largest = 0.0f;
    for (uint i = 0; i < GROUP; i++) largest = max(largest, fabs(float(from[g * GROUP + i])));
    group_code group;
    group.begin(largest);
    scales[g] = group.scale;
    for (uint i = 0; i < GROUP; i++) codes[g * GROUP + i] = group.code(float(from[g * GROUP + i]));
  }
}
#else
// A simdgroup takes a head, and its lanes two neighbours of each group.
constexpr uint SIMDGROUPS = 4;
threadgroup T made_heads[SIMDGROUPS * WIDEST];
const uint lane = thread_index_in_simdgroup;
const uint row = threadgroup_position_in_grid.y;
const uint head = threadgroup_position_in_grid.x * SIMDGROUPS + simdgroup_index_in_threadgroup;
begin_next();
const bool is_query = head < heads, is_value = head >= heads + kv_heads;
const int place = position[row];
const bool is_kept = is_query || (place >= 0 && place < int(capacity));
const bool has_norm = !is_value && (is_normed & (is_query ? 1u : 2u)) != 0;
turned_head<T, WIDEST / 32> turned;
turned.ask(frequencies, is_query ? q_norm : k_norm, has_norm, width, half_dims, lane);
turned.turn_to(place);
wait_for_inputs();
if (head >= heads + 2 * kv_heads || !is_kept) return;
const device T* from = x + size_t(row) * columns + size_t(head) * width;
if (is_query) {
  device T* to = out + (size_t(row) * heads + head) * width;
  turned.put(from, to, has_norm, true, eps, width, half_dims, lane);
  return;
}
threadgroup T* made = made_heads + simdgroup_index_in_threadgroup * WIDEST;
turned.put(from, made, has_norm, !is_value, eps, width, half_dims, lane);
simdgroup_barrier(mem_flags::mem_threadgroup);
const size_t cached = (size_t(row * own_caches) * kv_heads + (head - heads) % kv_heads) * capacity + place;
device int8_t* codes = (is_value ? values : keys) + cached * width;
device float* scales = (is_value ? value_scales : key_scales) + cached * groups;
for (uint g = 0; g < groups; g++) {
  const uint at = g * GROUP + lane * 2;
  const float left = float(made[at]), right = float(made[at + 1]);
  group_code group;
  group.begin(simd_max(max(fabs(left), fabs(right))));
  pack<int8_t, 2> pair;
  pair.values[0] = group.code(left);
  pair.values[1] = group.code(right);
  *(device pack<int8_t, 2>*)(codes + at) = pair;
  if (lane == 0) scales[g] = group.scale;
}
#endif
