// Attention (as attention.metal has it) over caches in 8 bits. Each row has its own position; own_caches: 0
// where all rows read the same caches.
const coded_rows key_rows = {keys, key_scales}, value_rows = {values, value_scales};
#if HIPRT_CPU_LOOPS
const uint head = threadgroup_position_in_grid.x, row = threadgroup_position_in_grid.z;
const size_t query_at = (size_t(row) * heads + head) * WIDTH;
const device T* opening = is_gated ? gate + size_t(row) * gate_stride + head * WIDTH : nullptr;
const int last = min(position[row], int(capacity) - 1);
const size_t cached = (size_t(row * own_caches) * (heads / repeat) + head / repeat) * capacity * WIDTH;
attend<T, WIDTH>(q + query_at, key_rows + cached, value_rows + cached, last, scale, opening, out + query_at);
#else
// A threadgroup takes HEADS query heads that read the same keys, and every `splits`-th run of positions.
typedef one_pass<T, WIDTH, HEADS> Pass;
constexpr uint SIMDGROUPS = 8;
threadgroup float left[SIMDGROUPS * HEADS * Pass::LEFT];
threadgroup uint answer;
const uint lane = thread_index_in_simdgroup, member = simdgroup_index_in_threadgroup;
const uint first = threadgroup_position_in_grid.x * HEADS;
const uint split = threadgroup_position_in_grid.y;
const uint row = threadgroup_position_in_grid.z;
constexpr int TURN = int(SIMDGROUPS) * Pass::RUN;
begin_next();
const int last = min(position[row], int(capacity) - 1);
const uint active = is_counted ? min(splits, uint(max(last, 0)) / TURN + 1) : splits;
wait_for_inputs();
if (split >= active) return;
const size_t first_head = size_t(row) * heads + first;
const size_t cached = (size_t(row * own_caches) * (heads / repeat) + first / repeat) * capacity * WIDTH;
Pass pass;
pass.begin(q + first_head * WIDTH, scale * 1.44269504f, lane);
for (int start = int(split) * TURN + int(member) * Pass::RUN; start <= last; start += int(splits) * TURN) {
  pass.template take<coded_part<Pass::PER_LANE>>(key_rows + cached, value_rows + cached, start, last);
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
