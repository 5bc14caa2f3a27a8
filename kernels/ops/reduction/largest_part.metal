// out[row] = place of the largest of what `groups` threadgroups found, a key and a place each.
threadgroup int keys[32];
threadgroup uint places[32];
const device int* from = found + size_t(threadgroup_position_in_grid.x) * groups * 2;
begin_next();
wait_for_inputs();
#if HIPRT_CPU_LOOPS
Largest best{from[0], uint(from[1])};
for (uint i = 1; i < groups; i++) consider(best, from[2 * i], uint(from[2 * i + 1]));
#else
// Groups with higher numbers have higher places, so that the first of equal keys stays.
Largest best{LOWEST_KEY, 0xffffffffu};
for (uint i = thread_index_in_threadgroup; i < groups; i += threads_per_threadgroup.x) {
  if (from[2 * i] > best.key) best = Largest{from[2 * i], uint(from[2 * i + 1])};
}
best = largest_of_threadgroup(best, keys, places, thread_index_in_simdgroup, simdgroup_index_in_threadgroup,
                              simdgroups_per_threadgroup);
if (thread_index_in_threadgroup == 0)
#endif
out[threadgroup_position_in_grid.x] = int(best.place);
