// Finds the largest of each threadgroup's logits, and the sum of exp(logit - largest).
threadgroup float parts[32];
const uint lane = thread_index_in_simdgroup;
const uint simdgroup = simdgroup_index_in_threadgroup;
const uint simdgroups = simdgroups_per_threadgroup;
const uint first = threadgroup_position_in_grid.x * share + thread_index_in_threadgroup;
const uint end = min(width, (threadgroup_position_in_grid.x + 1) * share);
float top = -INFINITY, sum = 0.0f;
for (uint i = first; i < end; i += threads_per_threadgroup.x) top = max(top, float(logits[i]));
top = top_of_row(top, parts, lane, simdgroup, simdgroups);
for (uint i = first; i < end; i += threads_per_threadgroup.x) {
  sum += float(logits[i]) > -INFINITY ? exp(float(logits[i]) - top) : 0.0f;
}
sum = sum_of_row(sum, parts, lane, simdgroup, simdgroups);
if (thread_index_in_threadgroup == 0) {
  tops[2 * threadgroup_position_in_grid.x] = top;
  tops[2 * threadgroup_position_in_grid.x + 1] = sum;
}
