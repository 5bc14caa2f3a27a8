// out = (x - mean) / sqrt(variance + eps) * weight + bias. A threadgroup takes one row. given: bit 0 the weight, bit 1 the
// bias.
threadgroup float parts[32];
const uint step = threads_per_threadgroup.x;
const uint first = thread_index_in_threadgroup;
const uint lane = thread_index_in_simdgroup;
const uint simdgroup = simdgroup_index_in_threadgroup;
const uint simdgroups = simdgroups_per_threadgroup;
const size_t base = size_t(threadgroup_position_in_grid.x) * width;
// Differences from the row's first value are summed up, because they stay exact where the mean is far larger than the
// deviation.
const float origin = float(x[base]);
float sum = 0.0f;
for (uint i = first; i < width; i += step) sum += float(x[base + i]) - origin;
float mean = sum_of_row(sum, parts, lane, simdgroup, simdgroups) / float(width);
float squares = 0.0f;
for (uint i = first; i < width; i += step) {
  float value = float(x[base + i]) - origin - mean;
  squares = mad(value, value, squares);
}
squares = sum_of_row(squares, parts, lane, simdgroup, simdgroups);
float scale = 1.0f / sqrt(squares / float(width) + eps);
for (uint i = first; i < width; i += step) {
  float value = (float(x[base + i]) - origin - mean) * scale;
  if (given & 1u) value *= float(weight[i]);
  if (given & 2u) value += float(bias[i]);
  out[base + i] = T(value);
}
