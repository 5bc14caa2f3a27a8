// out[m][n] = sum over k of x[m][k] * (code[n][k] * scale + bias), summed by groups: scale * (codes . x) + bias * sum(x).
// x and the weights may be stacks of matrices; where an index names none, the result is zeros.
constexpr uint PER_WORD = 32 / BITS;
const uint words = width / PER_WORD;
const uint groups = width / GROUP;
const uint item = start + threadgroup_position_in_grid.y;
const uint left = matrix_of(item / lines, left_divisor, left_modulus, (given & 1u) != 0, left_indices);
const uint right = matrix_of(item / lines, right_divisor, right_modulus, (given & 2u) != 0, right_indices);
const bool exists = left < left_count && right < right_count;
const device T* vector = x + (size_t(exists ? left : 0) * lines + item % lines) * width;
const size_t skipped = size_t(exists ? right : 0) * rows;
device T* result = out + size_t(item) * rows;
#if HIPRT_CPU_LOOPS
// x as float32 and its sums, staged once for all rows of the stretch, a chunk of the width at a time.
constexpr uint CHUNK = 2048;
constexpr uint MOST_ROWS = 64;
float staged[CHUNK];
float totals[CHUNK / GROUP];
float sums[MOST_ROWS];
uint first = threadgroup_position_in_grid.x * stretch;
uint count = min(uint(stretch), rows - first);
for (uint r = 0; r < count; r++) sums[r] = 0.0f;
for (uint from = 0; from < width; from += CHUNK) {
  uint chunk = min(uint(CHUNK), width - from) / GROUP;
  for (uint g = 0; g < chunk; g++) {
    f32x8 total = splat(0.0f);
    for (uint i = g * GROUP; i < (g + 1) * GROUP; i += 8) {
      f32x8 v = load8(vector + from + i);
      store8(staged + i, v);
      total += v;
    }
    totals[g] = sum8(total);
  }
  for (uint r = 0; r < count; r++) {
    const device uint* packed = weight + (skipped + first + r) * words + from / PER_WORD;
    const device T* scale = scales + (skipped + first + r) * groups + from / GROUP;
    const device T* bias = biases + (skipped + first + r) * groups + from / GROUP;
    f32x8 dots = splat(0.0f);
    float shift = 0.0f;
    for (uint g = 0; g < chunk; g++) {
      f32x8 dot = splat(0.0f);
      for (uint i = 0; i < GROUP; i += 8) {
        f32x8 codes = codes8<BITS>(packed + (g * GROUP + i) / PER_WORD);
        dot = mad(codes, load8(staged + g * GROUP + i), dot);
      }
      dots = mad(dot, splat(float(scale[g])), dots);
      shift = mad(float(bias[g]), totals[g], shift);
    }
    sums[r] += sum8(dots) + shift;
  }
}
for (uint r = 0; r < count; r++) result[first + r] = T(exists ? sums[r] : 0.0f);
#else
// A simdgroup takes ROWS rows; a lane reads 128 bits of each and the values of x that belong to them.
constexpr int ROWS = 2;
constexpr uint PACK = 128 / BITS;
uint lane = thread_index_in_simdgroup;
uint first = (threadgroup_position_in_grid.x * simdgroups_per_threadgroup + simdgroup_index_in_threadgroup) * ROWS;
if (first >= rows) return;
float sums[ROWS];
for (int r = 0; r < ROWS; r++) sums[r] = 0.0f;
for (uint k = lane * PACK; k < width; k += 32 * PACK) {
  float values[PACK];
  float total = 0.0f;
  for (uint i = 0; i < PACK; i += 8) {
    pack<T, 8> part = *(const device pack<T, 8>*)(vector + k + i);
    for (uint j = 0; j < 8; j++) {
      values[i + j] = float(part.values[j]);
      total += values[i + j];
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    uint row = min(first + r, rows - 1);
    pack<uint, 4> packed = *(const device pack<uint, 4>*)(weight + (skipped + row) * words + k / PER_WORD);
    size_t group = (skipped + row) * groups + k / GROUP;
    float dot = 0.0f;
    for (uint w = 0; w < 4; w++) {
      // Codes moved into bytes: the conversion of a byte to float32 is one instruction on AMD.
      uint even = BITS == 4 ? packed.values[w] & 0x0f0f0f0fu : packed.values[w];
      uint odd = (packed.values[w] >> 4) & 0x0f0f0f0fu;
      for (uint j = 0; j < 4; j++) {
        if (BITS == 4) {
          dot = mad(float((even >> (8 * j)) & 255u), values[w * 8 + 2 * j], dot);
          dot = mad(float((odd >> (8 * j)) & 255u), values[w * 8 + 2 * j + 1], dot);
        } else {
          dot = mad(float((even >> (8 * j)) & 255u), values[w * 4 + j], dot);
        }
      }
    }
    sums[r] = mad(float(scales[group]), dot, mad(float(biases[group]), total, sums[r]));
  }
}
for (int r = 0; r < ROWS; r++) {
  float sum = simd_sum(sums[r]);
  if (lane == 0 && first + r < rows) result[first + r] = T(exists ? sum : 0.0f);
}
#endif
