// out = (x - mean) / sqrt(variance + eps) * weight + bias; one row a threadgroup. given: bit 0 the weight, bit 1 the bias.
threadgroup float parts[32];
const uint step = threads_per_threadgroup.x;
const uint first = thread_index_in_threadgroup;
const uint lane = thread_index_in_simdgroup;
const uint simdgroup = simdgroup_index_in_threadgroup;
const uint simdgroups = simdgroups_per_threadgroup;
const size_t base = size_t(threadgroup_position_in_grid.x) * width;
float sum = 0.0f;
for (uint i = first; i < width; i += step) sum += float(x[base + i]);
float mean = sum_of_row(sum, parts, lane, simdgroup, simdgroups) / float(width);
float squares = 0.0f;
for (uint i = first; i < width; i += step) squares = mad(float(x[base + i]) - mean, float(x[base + i]) - mean, squares);
squares = sum_of_row(squares, parts, lane, simdgroup, simdgroups);
float scale = 1.0f / sqrt(squares / float(width) + eps);
for (uint i = first; i < width; i += step) {
  float value = (float(x[base + i]) - mean) * scale;
  if (given & 1u) value *= float(weight[i]);
  if (given & 2u) value += float(bias[i]);
  out[base + i] = T(value);
}
