// Heads normed and turned, their cache written, and attention as norm_rope_attention.metal has it, for heads of 16-bit numbers
// whose rows come as streamed_rows.h says. The rows of earlier positions are asked for before the inputs are there.
// DIMS elements of a head are turned, and SAME_KEYS threadgroups take heads that read the same keys.
typedef streamed_rows<T, WIDTH, HEADS, STAGES> Rows;
constexpr int STRETCH = SIMDGROUPS * Rows::RUN;
constexpr uint LINE = WIDTH + 8;                                  // apart in the banks
constexpr uint MADE = HEADS + 2;                                  // the queries, the key and the value
constexpr uint ROUNDS = (MADE + SIMDGROUPS - 1) / SIMDGROUPS;     // of them that a simdgroup makes
extern __shared__ pack<uint, 4> held[];
threadgroup pack<uint, 4> made_pieces[MADE * LINE / 8];
threadgroup uint answer;
threadgroup ulong full[SIMDGROUPS * STAGES * 2];
threadgroup T* const made = (threadgroup T*)made_pieces;
begin_next();
const uint index = thread_index_in_threadgroup, lane = index % 32, member = index / 32;
const uint row = threadgroup_position_in_grid.z;
// What comes from memory is asked for before anything waits for any of it.
const int place = position[row];
turned_head<T, (WIDTH + 31) / 32> turned[ROUNDS];
#pragma unroll
for (uint i = 0; i < ROUNDS; i++) {
  const uint head = i * SIMDGROUPS + member;
  const bool has_norm = (is_normed & (head == HEADS ? 2u : 1u)) != 0;
  if (head <= HEADS) turned[i].ask(frequencies, head == HEADS ? k_norm : q_norm, has_norm, WIDTH, DIMS / 2, lane);
}
const uint first = threadgroup_position_in_grid.x * HEADS, kv_head = threadgroup_position_in_grid.x / SAME_KEYS;
const uint kv_heads = heads / (HEADS * SAME_KEYS), split = threadgroup_position_in_grid.y;
Rows rows;
rows.ring = place_of(held) + member * Rows::BYTES;
rows.held = held + member * (Rows::BYTES / 16);
rows.full = place_of(full) + member * (STAGES * 16);
rows.lane = lane;
rows.open();
const bool is_kept = place >= 0 && place < int(capacity);
const int limit = min(place, int(capacity) - 1) + 1;
const uint active = is_counted ? min(splits, uint(max(limit, 1) + STRETCH - 1) / STRETCH) : splits;
const size_t cached = (size_t(row * own_caches) * kv_heads + kv_head) * capacity * WIDTH;
rows.keys = keys + cached;
rows.values = values + cached;
rows.limit = limit;
rows.cached = is_kept ? place : limit;
rows.apart = int(splits) * STRETCH;
const int start = int(split) * STRETCH + int(member) * Rows::RUN;
if (split < active) rows.begin(start);
#pragma unroll
for (uint i = 0; i < ROUNDS; i++) {
  if (i * SIMDGROUPS + member <= HEADS) turned[i].turn_to(place);
}
wait_for_inputs();
if (split >= active) return;
const device T* const columns_of_row = x + size_t(row) * columns;
#pragma unroll
for (uint i = 0; i < ROUNDS; i++) {
  const uint head = i * SIMDGROUPS + member;
  const uint from = head < HEADS ? first + head : heads + kv_head + (head - HEADS) * kv_heads;
  const bool has_norm = (is_normed & (head == HEADS ? 2u : 1u)) != 0;
  if (head <= HEADS) {
    turned[i].put(columns_of_row + from * WIDTH, made + head * LINE, has_norm, true, eps, WIDTH, DIMS / 2, lane);
  } else if (head < MADE) {
#pragma unroll
    for (uint j = 0; j < WIDTH / 32; j++) made[head * LINE + j * 32 + lane] = columns_of_row[from * WIDTH + j * 32 + lane];
  }
}
threadgroup_barrier(mem_flags::mem_threadgroup);
const threadgroup T* const key = made + HEADS * LINE;
const threadgroup T* const value = key + LINE;
if (own_caches && is_kept && split == 0 && threadgroup_position_in_grid.x % SAME_KEYS == 0 && member == SIMDGROUPS - 1) {
  for (uint i = lane; i < Rows::PIECES * 2; i += 32) {
    device T* const to = (i < Rows::PIECES ? keys : values) + cached + size_t(place) * WIDTH;
    ((device pack<uint, 4>*)to)[i % Rows::PIECES] = ((const threadgroup pack<uint, 4>*)(i < Rows::PIECES ? key : value))[i % Rows::PIECES];
  }
}
const uint head = lane / 4;
#pragma unroll
for (uint i = 0; i < Rows::STEPS * 2; i++) {
  const uint pair = *(const threadgroup uint*)(made + min(head, HEADS - 1u) * LINE + i * 8 + lane % 4 * 2);
  rows.query[i / 2][i % 2] = head < HEADS ? pair : 0u;
}
rows.take(start, scale * 1.44269504f, is_kept ? place : -1, key, value);
threadgroup float* const left = (threadgroup float*)held;
rows.leave(left + member * (Rows::BYTES / 4));
const size_t first_head = size_t(row) * heads + first;
paired_results<T, WIDTH, HEADS, SIMDGROUPS> results = {{
    out + first_head * WIDTH,
    gate + size_t(row) * gate_stride + first * WIDTH,
    parts + first_head * splits * Rows::LEFT,
    arrived + first_head / HEADS,
    is_gated != 0,
    is_counted != 0,
    split,
    splits,
    active,
}};
results.take(left, Rows::BYTES / 4, &answer, index);
