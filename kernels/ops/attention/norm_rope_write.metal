// Norms and rotates the queries and keys of a row (as rope.metal does), and writes its keys and values into their caches at
// the row's slot. Normed values are rounded to T before they are rotated, as two ops would do it.
// is_normed: bit 0 for queries, bit 1 for keys. own_caches: 0 where all rows have the same caches.
constexpr uint WIDEST = 256;
const uint half_dims = dims / 2;
#if HIPRT_CPU_LOOPS
const uint row = threadgroup_position_in_grid.x;
const int place = position[row], slot = slots[row];
float2 angles[WIDEST / 2];
for (uint i = 0; i < half_dims; i++) angles[i] = cos_sin(frequencies[i] * ulong(place));
for (uint head = 0; head < heads + 2 * kv_heads; head++) {
  const bool is_query = head < heads, is_value = head >= heads + kv_heads;
  if (!is_query && (slot < 0 || slot >= int(capacity))) break;
  const size_t cached = (size_t(row * own_caches) * kv_heads + (head - heads) % max(kv_heads, 1u)) * capacity + slot;
  T* to = is_query ? out + (size_t(row) * heads + head) * width : (is_value ? values : keys) + cached * width;
  const T* weight = (is_normed & (is_query ? 1u : 2u)) == 0 ? nullptr : is_query ? q_norm : k_norm;
  const T* from = x + size_t(row) * columns + size_t(head) * width;
  if (is_value) {
    for (uint i = 0; i < width; i++) to[i] = from[i];
  } else {
    turn(from, to, weight, angles, eps, width, half_dims);
  }
}
#else
// A simdgroup takes a head.
const uint lane = thread_index_in_simdgroup;
const uint row = threadgroup_position_in_grid.y;
const uint head = threadgroup_position_in_grid.x * simdgroups_per_threadgroup + simdgroup_index_in_threadgroup;
begin_next();
const bool is_query = head < heads, is_value = head >= heads + kv_heads;
const int place = position[row];
const bool has_norm = !is_value && (is_normed & (is_query ? 1u : 2u)) != 0;
turned_head<T, WIDEST / 32> turned;
turned.ask(frequencies, is_query ? q_norm : k_norm, has_norm, width, half_dims, lane);
turned.turn_to(place);
wait_for_inputs();
const int slot = slots[row];
if (head >= heads + 2 * kv_heads || (!is_query && (slot < 0 || slot >= int(capacity)))) return;
const size_t kv_head = size_t(row * own_caches) * kv_heads + (is_query ? 0u : (head - heads) % kv_heads);
const size_t cached = kv_head * capacity + (is_query ? 0 : slot);
device T* to = is_query ? out + (size_t(row) * heads + head) * width : (is_value ? values : keys) + cached * width;
turned.put(x + size_t(row) * columns + size_t(head) * width, to, has_norm, !is_value, eps, width, half_dims, lane);
#endif
