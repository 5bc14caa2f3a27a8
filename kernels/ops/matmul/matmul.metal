// out[m][n] = sum over k of a[m][k] * b[k][n], of stacks of matrices. DOTS: the columns of b lie in memory as rows do,
// and a simdgroup takes one; else a thread takes a column, and neighbours read neighbours.
const uint item = start + threadgroup_position_in_grid.y;
const uint batch = item / lines;
const device T* left = a + size_t(batch / left_divisor % left_modulus) * lines * depth + size_t(item % lines) * a_line;
const device T* right = b + size_t(batch / right_divisor % right_modulus) * depth * columns;
device T* result = out + size_t(item) * columns;
#if HIPRT_CPU_LOOPS
uint first = threadgroup_position_in_grid.x * stretch;
uint end = min(columns, first + stretch);
for (uint n = first; n < end;) {
  if (!DOTS && n + 8 <= end) {
    f32x8 sums = splat(0.0f);
    for (uint k = 0; k < depth; k++) {
      sums = mad(splat(float(left[size_t(k) * a_step])), load8(right + size_t(k) * columns + n), sums);
    }
    store8(result + n, sums);
    n += 8;
    continue;
  }
  float sum = 0.0f;
  uint k = 0;
  if (DOTS && a_step == 1) {
    f32x8 sums = splat(0.0f);
    for (; k + 8 <= depth; k += 8) sums = mad(load8(left + k), load8(right + size_t(n) * depth + k), sums);
    sum = sum8(sums);
  }
  for (; k < depth; k++) {
    size_t at = DOTS ? size_t(n) * depth + k : size_t(k) * columns + n;
    sum = mad(float(left[size_t(k) * a_step]), float(right[at]), sum);
  }
  result[n++] = T(sum);
}
#else
uint lane = DOTS ? thread_index_in_simdgroup : 0u;
uint n = DOTS ? threadgroup_position_in_grid.x * simdgroups_per_threadgroup + simdgroup_index_in_threadgroup
              : threadgroup_position_in_grid.x * threads_per_threadgroup.x + thread_index_in_threadgroup;
if (n >= columns) return;
float sum = 0.0f;
for (uint k = lane; k < depth; k += DOTS ? 32 : 1) {
  size_t at = DOTS ? size_t(n) * depth + k : size_t(k) * columns + n;
  sum = mad(float(left[size_t(k) * a_step]), float(right[at]), sum);
}
if (DOTS) sum = simd_sum(sum);
if (lane == 0) result[n] = T(sum);
#endif
