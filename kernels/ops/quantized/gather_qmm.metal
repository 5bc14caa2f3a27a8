// x @ w for every format, either way round, and for stacks of matrices that indices choose from; where an index names
// none, the result is zeros. TRANSPOSED: w is [columns][width], else [width][columns].
const uint item = start + threadgroup_position_in_grid.y;
const uint left = matrix_of(item / lines, left_divisor, left_modulus, (given & 1u) != 0, left_indices);
const uint right = matrix_of(item / lines, right_divisor, right_modulus, (given & 2u) != 0, right_indices);
const bool exists = left < left_count && right < right_count;
const uint stored = TRANSPOSED ? width : columns;  // values of a row of w
const size_t row_bytes = size_t(stored) * bits / 8;
const uint row_groups = stored / span;
const size_t skipped = size_t(exists ? right : 0) * (TRANSPOSED ? columns : width);
const device T* vector = x + (size_t(exists ? left : 0) * lines + item % lines) * width;
const device uchar* codes = (const device uchar*)weight + skipped * row_bytes;
const size_t groups = skipped * row_groups;
device T* result = out + size_t(item) * columns;
#if HIPRT_CPU_LOOPS
uint first = threadgroup_position_in_grid.x * stretch;
uint end = min(columns, first + stretch);
for (uint n = first; n < end; n += TRANSPOSED ? 1 : 8) {
  f32x8 sums = splat(0.0f);
  for (uint k = 0; k < width; k += TRANSPOSED ? 8 : 1) {
    uint row = TRANSPOSED ? n : k;
    uint at = TRANSPOSED ? k : n;
    size_t group = groups + size_t(row) * row_groups + at / span;
    f32x8 values = values8(codes + row * row_bytes + at / 8 * bits, bits, mode) * splat(scale_at<T>(scales, group, mode));
    if (mode == AFFINE) values += splat(float(((const device T*)biases)[group]));
    sums = mad(values, TRANSPOSED ? load8(vector + k) : splat(float(vector[k])), sums);
  }
  if (!exists) sums = splat(0.0f);
  if (TRANSPOSED) {
    result[n] = T(sum8(sums));
  } else {
    store8(result + n, sums);
  }
}
#else
// A simdgroup takes one column and shares its products, or a thread takes one and all of them.
uint lane = TRANSPOSED ? thread_index_in_simdgroup : 0u;
uint n = TRANSPOSED ? threadgroup_position_in_grid.x * simdgroups_per_threadgroup + simdgroup_index_in_threadgroup
                    : threadgroup_position_in_grid.x * threads_per_threadgroup.x + thread_index_in_threadgroup;
if (n >= columns) return;
float sum = 0.0f;
for (uint k = lane; k < width; k += TRANSPOSED ? 32 : 1) {
  uint row = TRANSPOSED ? n : k;
  uint at = TRANSPOSED ? k : n;
  size_t group = groups + size_t(row) * row_groups + at / span;
  float value = value_of(code_at(codes + row * row_bytes, at, bits), mode) * scale_at<T>(scales, group, mode);
  if (mode == AFFINE) value += float(((const device T*)biases)[group]);
  sum = mad(value, float(vector[k]), sum);
}
if (TRANSPOSED) sum = simd_sum(sum);
if (lane == 0) result[n] = T(exists ? sum : 0.0f);
#endif
