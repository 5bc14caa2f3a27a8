// Tiles of runs: items that name one matrix of a stack are a run, in their order, and each run has tiles of `rows` rows of its
// own. `matrices` gets the number of tiles, then the matrix of each; `order` the item of each row of the tiles, and 0xffffffff
// behind the end of a run. A threadgroup writes the run of one matrix, and the last one that of items that name none.
constexpr uint MOST = 1024;
threadgroup uint sizes[MOST + 1];
threadgroup uint parts[32];
const uint own = threadgroup_position_in_grid.x, index = thread_index_in_threadgroup, step = threads_per_threadgroup.x;
const uint lane = thread_index_in_simdgroup, simdgroup = simdgroup_index_in_threadgroup;
const uint simdgroups = simdgroups_per_threadgroup;
begin_next();
wait_for_inputs();
for (uint i = index; i <= stack; i += step) sizes[i] = 0;
threadgroup_barrier(mem_flags::mem_threadgroup);
for (uint i = index; i < count; i += step) {
  atomic_fetch_add_explicit((threadgroup atomic_uint*)&sizes[min(indices[i], stack)], 1u, memory_order_relaxed);
}
threadgroup_barrier(mem_flags::mem_threadgroup);
uint before = 0;
for (uint i = index; i < own; i += step) before += (sizes[i] + rows - 1) / rows;
before = simd_sum(before);
if (lane == 0) parts[simdgroup] = before;
threadgroup_barrier(mem_flags::mem_threadgroup);
uint first = 0;
for (uint i = 0; i < simdgroups; i++) first += parts[i];
const uint size = sizes[own], tiles = (size + rows - 1) / rows;
if (own == stack && index == 0) matrices[0] = first + tiles;
for (uint i = index; i < tiles; i += step) matrices[1 + first + i] = own;
device uint* const to = order + size_t(first) * rows;
for (uint i = size + index; i < tiles * rows; i += step) to[i] = 0xffffffffu;

// Each simdgroup has neighbouring items.
const uint share = (count + step - 1) / step * 32, begin = simdgroup * share, end = min(count, begin + share);
uint found = 0;
for (uint i = begin + lane; i < end; i += 32) found += min(indices[i], stack) == own ? 1u : 0u;
found = simd_sum(found);
threadgroup_barrier(mem_flags::mem_threadgroup);
if (lane == 0) parts[simdgroup] = found;
threadgroup_barrier(mem_flags::mem_threadgroup);
uint place = 0;
for (uint i = 0; i < simdgroup; i++) place += parts[i];
for (uint i = begin; i < end; i += 32) {
  const uint is_own = i + lane < end && min(indices[min(i + lane, end - 1)], stack) == own ? 1u : 0u;
  uint so_far = is_own;
  for (uint far = 1; far < 32; far *= 2) {
    const uint lower = simd_shuffle_up(so_far, far);
    so_far += lane >= far ? lower : 0;
  }
  if (is_own) to[place + so_far - 1] = i + lane;
  place += simd_shuffle(so_far, 31);
}
