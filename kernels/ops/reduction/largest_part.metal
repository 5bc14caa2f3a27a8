// out[row] = place of the largest of what `groups` threadgroups found, a key and a place each.
threadgroup int keys[32];
threadgroup uint places[32];
const device int* from = parts + size_t(threadgroup_position_in_grid.x) * groups * 2;
begin_next();
wait_for_inputs();
#if HIPRT_CPU_LOOPS
Largest best{from[0], uint(from[1])};
for (uint i = 1; i < groups; i++) consider(best, from[2 * i], uint(from[2 * i + 1]));
#else
Largest best = largest_of_parts(from, groups, keys, places, thread_index_in_threadgroup, threads_per_threadgroup.x,
                                thread_index_in_simdgroup, simdgroup_index_in_threadgroup, simdgroups_per_threadgroup);
if (thread_index_in_threadgroup == 0)
#endif
out[threadgroup_position_in_grid.x] = int(best.place);
