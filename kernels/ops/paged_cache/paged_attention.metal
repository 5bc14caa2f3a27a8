// Attention (as attention.metal has it) over caches in blocks. Each row has its own position and its own table, `blocks` numbers
// long. capacity: positions of the pool.
const uint row = threadgroup_position_in_grid.z;
const device int* own_table = table + size_t(row) * blocks;
const int longest = int(blocks << shift);
#if HIPRT_CPU_LOOPS
const uint head = threadgroup_position_in_grid.x;
const size_t query_at = (size_t(row) * heads + head) * WIDTH;
const device T* opening = is_gated ? gate + size_t(row) * gate_stride + head * WIDTH : nullptr;
const int last = min(position[row], longest - 1);
const size_t pooled = size_t(head / repeat) * capacity * WIDTH;
const paged_rows<T, WIDTH> key_rows = {keys + pooled, own_table, shift}, value_rows = {values + pooled, own_table, shift};
attend<T, WIDTH>(q + query_at, key_rows, value_rows, last, scale, opening, out + query_at);
#else
// A threadgroup takes HEADS query heads that read the same keys, and every `splits`-th run of positions.
typedef one_pass<T, WIDTH, HEADS> Pass;
constexpr uint SIMDGROUPS = 8;
threadgroup float left[SIMDGROUPS * HEADS * Pass::LEFT];
threadgroup uint answer;
const uint lane = thread_index_in_simdgroup, member = simdgroup_index_in_threadgroup;
const uint first = threadgroup_position_in_grid.x * HEADS;
const uint split = threadgroup_position_in_grid.y;
constexpr int TURN = int(SIMDGROUPS) * Pass::RUN;
begin_next();
const int last = min(position[row], longest - 1);
const uint active = is_counted ? min(splits, uint(max(last, 0)) / TURN + 1) : splits;
wait_for_inputs();
if (split >= active) return;
const size_t first_head = size_t(row) * heads + first;
const size_t pooled = size_t(first / repeat) * capacity * WIDTH;
const paged_rows<T, WIDTH> key_rows = {keys + pooled, own_table, shift}, value_rows = {values + pooled, own_table, shift};
Pass pass;
pass.begin(q + first_head * WIDTH, scale * 1.44269504f, lane);
for (int start = int(split) * TURN + int(member) * Pass::RUN; start <= last; start += int(splits) * TURN) {
  pass.take(key_rows, value_rows, start, last);
}
pass.leave(left + member * HEADS * Pass::LEFT, lane);
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
