// out[row] = place of the largest of `width` values. A thread takes RUN neighbours at a time. Where several threadgroups, a
// share each, take a row, they write the largest key and its place, and reduction/largest_part finds the largest of all.
const uint row = threadgroup_position_in_grid.x / groups;
begin_next();
wait_for_inputs();
const device T* from = x + size_t(row) * width;
#if HIPRT_CPU_LOOPS
Largest8 lanes = lowest8();
uint i = 0;
for (; i + 8 <= width; i += 8) consider8(lanes, load8(from + i), int(i));
Largest best = i > 0 ? merge8(lanes) : Largest{LOWEST_KEY, 0u};
for (; i < width; i++) consider(best, order_key(float(from[i])), i);
out[row] = int(best.place);
#else
threadgroup int keys[32];
threadgroup uint places[32];
Largest mine{LOWEST_KEY, 0xffffffffu};
const uint first = threadgroup_position_in_grid.x % groups * share;
const uint end = min(width, first + share);
#pragma unroll 4
for (uint i = first + thread_index_in_threadgroup * RUN; i < end; i += threads_per_threadgroup.x * RUN) {
  const pack<T, RUN> part = *(const device pack<T, RUN>*)(from + i);
  for (uint j = 0; j < RUN; j++) {
    int key = order_key(float(part.values[j]));
    if (key > mine.key) mine = Largest{key, i + j};
  }
}
Largest best = largest_of_threadgroup(mine, keys, places, thread_index_in_simdgroup, simdgroup_index_in_threadgroup,
                                      simdgroups_per_threadgroup);
if (thread_index_in_threadgroup == 0) write_largest(best, out, threadgroup_position_in_grid.x, groups);
#endif
