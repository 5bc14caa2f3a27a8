// out = exp(x - top) / sum(exp(x - top)) for each row, whose largest value is top; with LOGARITHM out = log(sum(exp(x))),
// one number for a row. A threadgroup takes one row.
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
  // The sum is NaN where the row has a NaN, and where the top is infinite, which is then the result: the row tells which.
  bool is_nan = false;
  for (uint i = first; i < width; i += step) is_nan = is_nan || isnan(float(x[base + i]));
  is_nan = sum_of_row(is_nan ? 1.0f : 0.0f, parts, lane, simdgroup, simdgroups) > 0.0f;
  float result = is_nan ? NAN : isinf(top) ? top : top + log(sum);
  if (first == 0) out[threadgroup_position_in_grid.x] = T(result);
} else {
  for (uint i = first; i < width; i += step) out[base + i] = T(exp(float(x[base + i]) - top) / sum);
}
