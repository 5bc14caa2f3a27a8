// sum = x + residual, rounded; out = sum / sqrt(mean(sum^2) + eps) * weight. A threadgroup takes one row.
threadgroup float parts[32];
const uint step = threads_per_threadgroup.x;
const uint first = thread_index_in_threadgroup;
const uint lane = thread_index_in_simdgroup;
const uint simdgroup = simdgroup_index_in_threadgroup;
const uint simdgroups = simdgroups_per_threadgroup;
const size_t base = size_t(threadgroup_position_in_grid.x) * width;
float squares = 0.0f;
for (uint i = first; i < width; i += step) {
  T value = T(float(x[base + i]) + float(residual[base + i]));
  sum[base + i] = value;
  squares = mad(float(value), float(value), squares);
}
squares = sum_of_row(squares, parts, lane, simdgroup, simdgroups);
float scale = 1.0f / sqrt(squares / float(width) + eps);
for (uint i = first; i < width; i += step) out[base + i] = T(float(sum[base + i]) * scale * float(weight[i]));
