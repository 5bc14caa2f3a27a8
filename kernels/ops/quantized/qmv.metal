// out[b][n] = sum over k of x[b][k] * norm[k] * (code[n][k] * scale + bias), by groups: scale * (codes . x) + bias * sum(x).
// A common factor of x, that of its norm, is applied to the result. Gated: rows n and columns + n make silu(n) * other.
const bool is_normed = (flags & 1u) != 0, is_added = (flags & 2u) != 0, is_gated = (flags & 4u) != 0;
#if HIPRT_CPU_LOOPS
constexpr uint CHUNK = 2048;
constexpr uint MOST_ROWS = 64;
const device T* vector = x + size_t(threadgroup_position_in_grid.y) * width;
float staged[CHUNK];
float totals[CHUNK / GROUP];
float sums[MOST_ROWS];
const uint first = threadgroup_position_in_grid.x * stretch;
const uint count = min(uint(stretch), columns - first);
const uint lines = is_gated ? 2 * count : count;
f32x8 squares = splat(0.0f);
for (uint r = 0; r < lines; r++) sums[r] = 0.0f;
for (uint from = 0; from < width; from += CHUNK) {
  const uint chunk = min(uint(CHUNK), width - from) / GROUP;
  for (uint g = 0; g < chunk; g++) {
    f32x8 total = splat(0.0f);
    for (uint i = g * GROUP; i < (g + 1) * GROUP; i += 8) {
      f32x8 v = load8(vector + from + i);
      if (is_normed) {
        squares = mad(v, v, squares);
        v *= load8(norm + from + i);
      }
      store8(staged + i, v);
      total += v;
    }
    totals[g] = sum8(total);
  }
  for (uint r = 0; r < lines; r++) {
    const size_t row = r < count ? first + r : columns + first + r - count;
    const device uchar* packed = (const device uchar*)weight + (row * width + from) / 8 * BITS;
    const device T* scale = scales + (row * width + from) / GROUP;
    const device T* bias = biases + (row * width + from) / GROUP;
    f32x8 dots = splat(0.0f);
    float shift = 0.0f;
    for (uint g = 0; g < chunk; g++) {
      f32x8 dot = splat(0.0f);
      for (uint i = 0; i < GROUP; i += 8) {
        f32x8 codes = codes8<BITS>(packed + (g * GROUP + i) / 8 * BITS);
        dot = mad(codes, load8(staged + g * GROUP + i), dot);
      }
      dots = mad(dot, splat(float(scale[g])), dots);
      shift = mad(float(bias[g]), totals[g], shift);
    }
    sums[r] += sum8(dots) + shift;
  }
}
const float factor = is_normed ? rsqrt(sum8(squares) / float(width) + eps) : 1.0f;
for (uint r = 0; r < count; r++) {
  const size_t to = size_t(threadgroup_position_in_grid.y) * columns + first + r;
  float value = sums[r] * factor;
  if (is_gated) value = value / (1.0f + exp(-value)) * (sums[count + r] * factor);
  out[to] = S(is_added ? value + float(residual[to]) : value);
}
#else
// SPLIT simdgroups of a threadgroup share the width of ROWS rows. A lane reads a piece of each row at a time, and what of
// the vectors belongs to it.
constexpr uint PACK = lane_codes<BITS>::COUNT;
constexpr uint SIMDGROUPS = SPLIT > 4 ? SPLIT : 4;
constexpr uint EACH = (ROWS + 1) * BATCH;
threadgroup float parts[SPLIT > 1 ? SIMDGROUPS * EACH : 1];
const uint outputs = is_gated ? ROWS / 2 : ROWS;
const uint lane = thread_index_in_simdgroup;
const uint own = SPLIT > 1 ? simdgroup_index_in_threadgroup % SPLIT : 0;
const uint first =
    (threadgroup_position_in_grid.x * (SIMDGROUPS / SPLIT) + simdgroup_index_in_threadgroup / SPLIT) * outputs;
const uint vectors = threadgroup_position_in_grid.y * BATCH;
if (SPLIT == 1 && first >= columns) return;
float sums[ROWS][BATCH], squares[BATCH];
for (uint b = 0; b < BATCH; b++) {
  squares[b] = 0.0f;
  for (uint r = 0; r < ROWS; r++) sums[r][b] = 0.0f;
}
for (uint k = (own * 32 + lane) * PACK; k < width; k += SPLIT * 32 * PACK) {
  lane_codes<BITS> packed[ROWS];
  float scale[ROWS], bias[ROWS];
#pragma unroll
  for (uint r = 0; r < ROWS; r++) {
    const uint row = min(first + r % outputs, columns - 1) + r / outputs * columns;
    const size_t at = size_t(row) * width + k;
    packed[r].load(weight, at);
    scale[r] = float(scales[at / GROUP]);
    bias[r] = float(biases[at / GROUP]);
  }
#pragma unroll
  for (uint b = 0; b < BATCH; b++) {
    lane_values<T, BITS, has_dot<T>::value != 0 && BITS % 4 == 0> values;
    float total = 0.0f;
    for (uint i = 0; i < PACK; i += 8) {
      const size_t at = size_t(min(vectors + b, uint(batch) - 1)) * width + k + i;
      pack<T, 8> part = *(const device pack<T, 8>*)(x + at);
      if (is_normed) {
        const pack<T, 8> factors = *(const device pack<T, 8>*)(norm + k + i);
        for (uint j = 0; j < 8; j++) {
          const float value = float(part.values[j]);
          squares[b] = mad(value, value, squares[b]);
          part.values[j] = T(value * float(factors.values[j]));
        }
      }
      for (uint j = 0; j < 8; j++) total += float(part.values[j]);
      values.take(i / 8, part.values);
    }
#pragma unroll
    for (uint r = 0; r < ROWS; r++) {
      const float dot = values.dot(packed[r], total);
      sums[r][b] = mad(scale[r], dot, mad(bias[r], total, sums[r][b]));
    }
  }
}
if (SPLIT > 1) {
  threadgroup float* mine = parts + simdgroup_index_in_threadgroup * EACH;
  for (uint b = 0; b < BATCH; b++) {
    for (uint r = 0; r < ROWS; r++) {
      const float sum = simd_sum(sums[r][b]);
      if (lane == 0) mine[b * (ROWS + 1) + r] = sum;
    }
    const float sum = is_normed ? simd_sum(squares[b]) : 0.0f;
    if (lane == 0) mine[b * (ROWS + 1) + ROWS] = sum;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (own > 0 || first >= columns) return;
}
for (uint b = 0; b < BATCH; b++) {
  float values[ROWS], square = 0.0f;
  if (SPLIT > 1) {
    const threadgroup float* shared = parts + simdgroup_index_in_threadgroup * EACH + b * (ROWS + 1);
    for (uint r = 0; r < ROWS; r++) values[r] = 0.0f;
    for (uint s = 0; s < SPLIT; s++) {
      for (uint r = 0; r < ROWS; r++) values[r] += shared[s * EACH + r];
      square += shared[s * EACH + ROWS];
    }
  } else {
    if (is_normed) square = simd_sum(squares[b]);
#pragma unroll
    for (uint r = 0; r < ROWS; r++) values[r] = simd_sum(sums[r][b]);
  }
  const float factor = is_normed ? rsqrt(square / float(width) + eps) : 1.0f;
#pragma unroll
  for (uint r = 0; r < ROWS; r++) values[r] *= factor;
#pragma unroll
  for (uint r = 0; r < ROWS; r++) {
    float value = values[r];
    if (is_gated) value = value / (1.0f + exp(-value)) * values[(r + ROWS / 2) % ROWS];
    const size_t to = size_t(vectors + b) * columns + first + r;
    if (lane == 0 && r < outputs && vectors + b < batch && first + r < columns) {
      out[to] = S(is_added ? value + float(residual[to]) : value);
    }
  }
}
#endif
