// Attention as attention.metal has it, for heads of 16-bit numbers whose rows come as streamed_rows.h says. A threadgroup takes
// HEADS query heads that read the same keys, as SAME_KEYS threadgroups do, and every `splits`-th stretch of positions.
typedef streamed_rows<T, WIDTH, HEADS, STAGES> Rows;
constexpr int STRETCH = SIMDGROUPS * Rows::RUN;
extern __shared__ pack<uint, 4> held[];
threadgroup uint answer;
threadgroup ulong full[SIMDGROUPS * STAGES * 2];
const uint index = thread_index_in_threadgroup, lane = index % 32, member = index / 32;
const uint first = threadgroup_position_in_grid.x * HEADS;
const uint split = threadgroup_position_in_grid.y;
const uint row = threadgroup_position_in_grid.z;
begin_next();
Rows rows;
rows.ring = place_of(held) + member * Rows::BYTES;
rows.held = held + member * (Rows::BYTES / 16);
rows.full = place_of(full) + member * (STAGES * 16);
rows.lane = lane;
const int place = position[row];
rows.open();
const int limit = min(place, int(capacity) - 1) + 1;
const uint active = is_counted ? min(splits, uint(max(limit, 1) + STRETCH - 1) / STRETCH) : splits;
wait_for_inputs();
if (split >= active) return;
const size_t first_head = size_t(row) * heads + first;
const uint kv_heads = heads / (HEADS * SAME_KEYS), kv_head = threadgroup_position_in_grid.x / SAME_KEYS;
const size_t cached = (size_t(row * own_caches) * kv_heads + kv_head) * capacity * WIDTH;
rows.keys = keys + cached;
rows.values = values + cached;
rows.cached = rows.limit = limit;
rows.apart = int(splits) * STRETCH;
const int start = int(split) * STRETCH + int(member) * Rows::RUN;
rows.begin(start);
const uint head = lane / 4;
#pragma unroll
for (uint i = 0; i < Rows::STEPS * 2; i++) {
  const device ushort* const from = (const device ushort*)q + (first_head + min(head, HEADS - 1u)) * WIDTH + i * 8 + lane % 4 * 2;
  const uint pair = load_now(from) | load_now(from + 1) << 16;
  rows.query[i / 2][i % 2] = head < HEADS ? pair : 0u;
}
rows.take(start, scale * 1.44269504f, -1, (const threadgroup T*)held, (const threadgroup T*)held);
threadgroup float* const left = (threadgroup float*)held;
rows.leave(left + member * (Rows::BYTES / 4));
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
