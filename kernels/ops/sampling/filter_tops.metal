// Finds the largest of each threadgroup's logits, and clears what the search adds to: `words` words of each row.
threadgroup float parts[32];
const uint lane = thread_index_in_simdgroup;
const uint row = threadgroup_position_in_grid.x / groups, group = threadgroup_position_in_grid.x % groups;
const uint step = threads_per_threadgroup.x;
const uint first = group * share + thread_index_in_threadgroup;
const uint end = min(width, (group + 1) * share);
const device T* values = logits + size_t(row) * width;
device uint* own = found + size_t(row) * words;
begin_next();
wait_for_inputs();
for (uint i = group * step + thread_index_in_threadgroup; i < words; i += groups * step) own[i] = 0;
float top = -INFINITY;
#pragma unroll 4
for (uint i = first; i < end; i += step) top = max(top, float(values[i]));
top = top_of_row(top, parts, lane, simdgroup_index_in_threadgroup, simdgroups_per_threadgroup);
if (thread_index_in_threadgroup == 0) tops[threadgroup_position_in_grid.x] = top;
