// out = x * rsqrt(mean(x^2) + eps) * weight for each row of `width` values. SIMDGROUPS simdgroups share a row; a lane
// takes RUN neighbours at a time.
wait_for_inputs();
begin_next();
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
const uint start = (member * 32 + lane) * RUN;
float sum = 0.0f;
for (uint i = start; i < width; i += SIMDGROUPS * 32 * RUN) {
  pack<T, RUN> part = *(const device pack<T, RUN>*)(from + i);
  for (int j = 0; j < RUN; j++) sum = mad(float(part.values[j]), float(part.values[j]), sum);
}
sum = simd_sum(sum);
if (SIMDGROUPS > 1) {
  if (lane == 0) partial[member] = sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  sum = 0.0f;
  for (int i = 0; i < SIMDGROUPS; i++) sum += partial[i];
}
float scale = rsqrt(sum / float(width) + eps);
for (uint i = start; i < width; i += SIMDGROUPS * 32 * RUN) {
  pack<T, RUN> part = *(const device pack<T, RUN>*)(from + i);
  for (int j = 0; j < RUN; j++) {
    float v = float(part.values[j]) * scale;
    part.values[j] = T(WEIGHTED ? v * float(weight[i + j]) : v);
  }
  *(device pack<T, RUN>*)(to + i) = part;
}
#endif
