// out[row] = place of the largest of `width` values. A thread takes RUN neighbours at a time. Where several threadgroups, a
// share each, take a row, the last of them to finish finds the largest of all (LargestShare).
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
threadgroup uint answer;
Largest mine{LOWEST_KEY, 0xffffffffu};
const uint group = threadgroup_position_in_grid.x % groups, first = group * share;
const uint end = min(width, first + share);
#pragma unroll 4
for (uint i = first + thread_index_in_threadgroup * RUN; i < end; i += threads_per_threadgroup.x * RUN) {
  const pack<T, RUN> part = *(const device pack<T, RUN>*)(from + i);
  for (uint j = 0; j < RUN; j++) {
    int key = order_key(float(part.values[j]));
    if (key > mine.key) mine = Largest{key, i + j};
  }
}
LargestShare taken{parts, arrived, row, group, groups, is_counted};
taken.put(mine, out, keys, places, &answer, thread_index_in_threadgroup, threads_per_threadgroup.x, thread_index_in_simdgroup,
          simdgroup_index_in_threadgroup, simdgroups_per_threadgroup);
#endif
