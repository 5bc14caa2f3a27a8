// Finds the largest of each threadgroup's logits, and clears what the search adds to.
threadgroup float parts[32];
const uint lane = thread_index_in_simdgroup;
const uint group = threadgroup_position_in_grid.x;
const uint step = threads_per_threadgroup.x;
const uint first = group * share + thread_index_in_threadgroup;
const uint end = min(width, (group + 1) * share);
begin_next();
wait_for_inputs();
for (uint i = group * step + thread_index_in_threadgroup; i < words; i += groups * step) found[i] = 0;
float top = -INFINITY;
#pragma unroll 4
for (uint i = first; i < end; i += step) top = max(top, float(logits[i]));
top = top_of_row(top, parts, lane, simdgroup_index_in_threadgroup, simdgroups_per_threadgroup);
if (thread_index_in_threadgroup == 0) tops[group] = top;
