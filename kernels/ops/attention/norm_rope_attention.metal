// The queries and the newest key of a row are normed and turned (as norm_rope_write.metal does), and attend to the cache (as
// attention.metal does); the newest key and value are put into their caches. is_normed: bit 0 for queries, bit 1 for keys.
// own_caches: 0 where all rows have the same caches, which hold their keys and values already. DIMS elements of a head are turned.
const uint kv_heads = heads / repeat;
constexpr uint HALF_DIMS = DIMS / 2;
#if HIPRT_CPU_LOOPS
const uint kv_head = threadgroup_position_in_grid.x, row = threadgroup_position_in_grid.z;
const int place = position[row];
const T* columns_of_row = x + size_t(row) * columns;
const size_t cached = (size_t(row * own_caches) * kv_heads + kv_head) * capacity * WIDTH;
float2 angles[WIDTH / 2 + 1];
for (uint i = 0; i < HALF_DIMS; i++) angles[i] = cos_sin(frequencies[i] * ulong(place));
if (own_caches && place >= 0 && place < int(capacity)) {
  const T* key = columns_of_row + (heads + kv_head) * WIDTH;
  const size_t newest = cached + size_t(place) * WIDTH;
  turn(key, keys + newest, is_normed & 2u ? k_norm : nullptr, angles, eps, WIDTH, HALF_DIMS);
  for (uint i = 0; i < uint(WIDTH); i++) values[newest + i] = key[kv_heads * WIDTH + i];
}
for (uint head = kv_head * repeat; head < (kv_head + 1) * repeat; head++) {
  T query[WIDTH];
  turn(columns_of_row + head * WIDTH, query, is_normed & 1u ? q_norm : nullptr, angles, eps, WIDTH, HALF_DIMS);
  const T* opening = is_gated ? gate + size_t(row) * gate_stride + head * WIDTH : nullptr;
  T* to = out + (size_t(row) * heads + head) * WIDTH;
  attend<T, WIDTH>(query, keys + cached, values + cached, min(place, int(capacity) - 1), scale, opening, to);
}
#else
// A threadgroup takes HEADS query heads that read the same keys, and every `splits`-th run of positions. Nobody reads the
// newest position from the caches: it is taken from where it is made.
typedef one_pass<T, WIDTH, HEADS> Pass;
constexpr uint SIMDGROUPS = 8;
threadgroup T made[(HEADS + 1) * WIDTH];  // the queries and the key
threadgroup float left[SIMDGROUPS * HEADS * Pass::LEFT];
threadgroup uint answer;
const uint lane = thread_index_in_simdgroup, member = simdgroup_index_in_threadgroup;
const uint first = threadgroup_position_in_grid.x * HEADS;
const uint split = threadgroup_position_in_grid.y;
const uint row = threadgroup_position_in_grid.z;
constexpr int TURN = int(SIMDGROUPS) * Pass::RUN;
begin_next();
const uint kv_head = first / repeat;
const int place = position[row];
const bool is_kept = place >= 0 && place < int(capacity), is_key = member == HEADS;
const int last = min(place, int(capacity)) - 1;  // of the positions that are read from the caches
const uint active = is_counted ? min(splits, uint(max(last, 0)) / TURN + 1) : splits;
const bool has_norm = (is_normed & (is_key ? 2u : 1u)) != 0;
turned_head<T, (WIDTH + 31) / 32> turned;
if (member <= HEADS) {
  turned.ask(frequencies, is_key ? k_norm : q_norm, has_norm, WIDTH, HALF_DIMS, lane);
  turned.turn_to(place);
}
wait_for_inputs();
if (split >= active) return;
const device T* columns_of_row = x + size_t(row) * columns;
const device T* newest = columns_of_row + (heads + kv_heads + kv_head) * WIDTH;
if (member <= HEADS) {
  const device T* from = columns_of_row + (is_key ? heads + kv_head : first + member) * WIDTH;
  turned.put(from, made + member * WIDTH, has_norm, true, eps, WIDTH, HALF_DIMS, lane);
}
threadgroup_barrier(mem_flags::mem_threadgroup);
const threadgroup T* key = made + HEADS * WIDTH;
const size_t cached = (size_t(row * own_caches) * kv_heads + kv_head) * capacity * WIDTH;
if (own_caches && is_kept && split == 0 && first % repeat == 0 && member == SIMDGROUPS - 1) {
  for (uint i = lane; i < uint(WIDTH); i += 32) {
    keys[cached + size_t(place) * WIDTH + i] = key[i];
    values[cached + size_t(place) * WIDTH + i] = newest[i];
  }
}
Pass pass;
pass.begin((const threadgroup T*)made, scale * 1.44269504f, lane);
if (is_kept && split == 0) pass.take_first(key, newest, member == 0);
for (int start = int(split) * TURN + int(member) * Pass::RUN; start <= last; start += int(splits) * TURN) {
  pass.take(keys + cached, values + cached, start, last);
}
pass.leave(left + member * HEADS * Pass::LEFT, lane);
const size_t first_head = size_t(row) * heads + first;
head_results<T> results = {
    out + first_head * WIDTH,
    gate + size_t(row) * gate_stride + first * WIDTH,
    parts + first_head * splits * Pass::LEFT,
    arrived + first_head / HEADS,
    is_gated != 0,
    is_counted != 0,
    split,
    splits,
    active,
};
results.take(left, &answer, HEADS, WIDTH, SIMDGROUPS, thread_index_in_threadgroup);
#endif
