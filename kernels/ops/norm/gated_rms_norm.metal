// out = x / sqrt(mean(x^2) + eps) * weight * gate * sigmoid(gate). A threadgroup takes one row. The gates of `heads`
// neighbouring rows lie side by side, gate_stride elements behind those of the rows before.
threadgroup float parts[32];
wait_for_inputs();
begin_next();
const uint step = threads_per_threadgroup.x;
const uint first = thread_index_in_threadgroup;
const uint lane = thread_index_in_simdgroup;
const uint simdgroup = simdgroup_index_in_threadgroup;
const uint simdgroups = simdgroups_per_threadgroup;
const uint row = threadgroup_position_in_grid.x;
const size_t base = size_t(row) * width;
const device T* opening = gate + size_t(row / heads) * gate_stride + size_t(row % heads) * width;
float squares = 0.0f;
for (uint i = first; i < width; i += step) squares = mad(float(x[base + i]), float(x[base + i]), squares);
squares = sum_of_row(squares, parts, lane, simdgroup, simdgroups);
float scale = 1.0f / sqrt(squares / float(width) + eps);
for (uint i = first; i < width; i += step) {
  float open = float(opening[i]);
  float value = float(x[base + i]) * scale * float(weight[i]);
  out[base + i] = T(value * (open / (1.0f + exp(-open))));
}
