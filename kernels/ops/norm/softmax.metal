// One row a threadgroup: exp(x - top) / sum of them; with LOGARITHM the logarithm of the sum, which stands for the row.
threadgroup float parts[32];
const uint step = threads_per_threadgroup.x;
const uint first = thread_index_in_threadgroup;
const uint lane = thread_index_in_simdgroup;
const uint simdgroup = simdgroup_index_in_threadgroup;
const uint simdgroups = simdgroups_per_threadgroup;
const size_t base = size_t(threadgroup_position_in_grid.x) * width;
float top = -INFINITY;
for (uint i = first; i < width; i += step) top = max(top, float(x[base + i]));
top = top_of_row(top, parts, lane, simdgroup, simdgroups);
float sum = 0.0f;
for (uint i = first; i < width; i += step) sum += exp(float(x[base + i]) - top);
sum = sum_of_row(sum, parts, lane, simdgroup, simdgroups);
if (LOGARITHM) {
  // NaN is in the sum alone; an infinite top stands for itself, but its own difference is NaN too.
  bool is_nan = false;
  for (uint i = first; i < width; i += step) is_nan = is_nan || isnan(float(x[base + i]));
  is_nan = sum_of_row(is_nan ? 1.0f : 0.0f, parts, lane, simdgroup, simdgroups) > 0.0f;
  float result = is_nan ? NAN : isinf(top) ? top : top + log(sum);
  if (first == 0) out[threadgroup_position_in_grid.x] = T(result);
} else {
  for (uint i = first; i < width; i += step) out[base + i] = T(exp(float(x[base + i]) - top) / sum);
}
