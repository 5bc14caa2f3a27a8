// out = x * rsqrt(mean(x^2) + eps) * weight for each row of `width` values. SIMDGROUPS of them share a row.
#if HIPRT_CPU_LOOPS
uint first = threadgroup_position_in_grid.x * stretch;
uint end = min(rows, first + stretch);
for (uint row = first; row < end; row++) {
  const device T* from = x + size_t(row) * width;
  device T* to = out + size_t(row) * width;
  f32x8 squares = splat(0.0f);
  uint i = 0;
  for (; i + 8 <= width; i += 8) {
    f32x8 v = load8(from + i);
    squares = mad(v, v, squares);
  }
  float sum = sum8(squares);
  for (; i < width; i++) sum = mad(float(from[i]), float(from[i]), sum);
  float scale = rsqrt(sum / float(width) + eps);
  f32x8 scales = splat(scale);
  for (i = 0; i + 8 <= width; i += 8) {
    f32x8 v = load8(from + i) * scales;
    store8(to + i, WEIGHTED ? v * load8(weight + i) : v);
  }
  for (; i < width; i++) {
    float v = float(from[i]) * scale;
    to[i] = T(WEIGHTED ? v * float(weight[i]) : v);
  }
}
#else
threadgroup float partial[SIMDGROUPS];
uint lane = thread_index_in_simdgroup;
uint member = SIMDGROUPS > 1 ? simdgroup_index_in_threadgroup : 0u;
uint row = SIMDGROUPS > 1 ? threadgroup_position_in_grid.x
                          : threadgroup_position_in_grid.x * simdgroups_per_threadgroup + simdgroup_index_in_threadgroup;
if (row >= rows) return;
const device T* from = x + size_t(row) * width;
device T* to = out + size_t(row) * width;
float sum = 0.0f;
for (uint i = member * 32 + lane; i < width; i += SIMDGROUPS * 32) {
  float v = float(from[i]);
  sum = mad(v, v, sum);
}
sum = simd_sum(sum);
if (SIMDGROUPS > 1) {
  if (lane == 0) partial[member] = sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  sum = 0.0f;
  for (int i = 0; i < SIMDGROUPS; i++) sum += partial[i];
}
float scale = rsqrt(sum / float(width) + eps);
for (uint i = member * 32 + lane; i < width; i += SIMDGROUPS * 32) {
  float v = float(from[i]) * scale;
  to[i] = T(WEIGHTED ? v * float(weight[i]) : v);
}
#endif
