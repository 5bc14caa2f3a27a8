// softmax(scale * q . keys[0..position]) . values in one pass: the sums are kept relative to the largest score so far and
// scaled down when a larger one comes. Each row of a batch has its own position and caches.
#if HIPRT_CPU_LOOPS
const uint head = threadgroup_position_in_grid.x, row = threadgroup_position_in_grid.z;
const int last = min(position[row], int(capacity) - 1);
const size_t cached = (size_t(row) * (heads / repeat) + head / repeat) * capacity * WIDTH;
const size_t query_at = (size_t(row) * heads + head) * WIDTH;
const device T* query = q + query_at;
const device T* key_rows = keys + cached;
const device T* value_rows = values + cached;
device T* result = out + query_at;
constexpr int TILE = 32;
constexpr int WHOLE = WIDTH / 8 * 8;
float query_part[WIDTH], totals[WIDTH], weights[TILE];
float top = -INFINITY;
float norm = 0.0f;
for (int i = 0; i < WIDTH; i++) {
  query_part[i] = scale * float(query[i]);
  totals[i] = 0.0f;
}
for (int start = 0; start <= last; start += TILE) {
  int count = min(TILE, last + 1 - start);
  float tile_top = top;
  for (int p = 0; p < count; p++) {
    const device T* key = key_rows + size_t(start + p) * WIDTH;
    f32x8 products = splat(0.0f);
    for (int i = 0; i < WHOLE; i += 8) products = mad(load8(query_part + i), load8(key + i), products);
    float score = sum8(products);
    for (int i = WHOLE; i < WIDTH; i++) score = mad(query_part[i], float(key[i]), score);
    weights[p] = score;
    tile_top = max(tile_top, score);
  }
  for (int p = count; p < TILE; p++) weights[p] = -INFINITY;
  float fade = exp(top - tile_top);
  top = tile_top;
  f32x8 sums = splat(0.0f);
  for (int p = 0; p < TILE; p += 8) {
    f32x8 weight = exp_of(load8(weights + p) - splat(top));
    store8(weights + p, weight);
    sums += weight;
  }
  norm = norm * fade + sum8(sums);
  for (int i = 0; i < WIDTH; i++) totals[i] *= fade;
  for (int p = 0; p < count; p++) {
    const device T* value = value_rows + size_t(start + p) * WIDTH;
    f32x8 weight = splat(weights[p]);
    for (int i = 0; i < WHOLE; i += 8) store8(totals + i, mad(weight, load8(value + i), load8(totals + i)));
    for (int i = WHOLE; i < WIDTH; i++) totals[i] = mad(weights[p], float(value[i]), totals[i]);
  }
}
for (int i = 0; i < WIDTH; i++) {
  const float opening = is_gated ? 1.0f / (1.0f + exp(-float(gate[size_t(row) * gate_stride + head * WIDTH + i]))) : 1.0f;
  result[i] = T(last < 0 ? 0.0f : totals[i] / norm * opening);
}
#else
// A threadgroup takes HEADS query heads that read the same keys, and every `splits`-th run of positions. LANES lanes hold
// one position, so that a simdgroup reads SIDE positions at a time, UNROLL times over.
constexpr bool EXACT = WIDTH == 32 || WIDTH == 64 || WIDTH == 128 || WIDTH == 256;
constexpr uint PER_LANE = EXACT ? 8 : (WIDTH + 31) / 32;
constexpr uint LANES = EXACT ? WIDTH / 8 : 32;
constexpr uint SIDE = 32 / LANES;  // positions side by side
constexpr uint UNROLL = 4;
constexpr uint SIMDGROUPS = 8;
constexpr float LOWEST = -3.0e38f;
threadgroup float tops[SIMDGROUPS * HEADS];
threadgroup float norms[SIMDGROUPS * HEADS];
threadgroup float partial[SIMDGROUPS * HEADS * WIDTH];
const uint lane = thread_index_in_simdgroup, member = simdgroup_index_in_threadgroup;
const uint first = threadgroup_position_in_grid.x * HEADS;
const uint split = threadgroup_position_in_grid.y;
const uint row = threadgroup_position_in_grid.z;
begin_next();
const int last = min(position[row], int(capacity) - 1);
wait_for_inputs();
const size_t first_head = size_t(row) * heads + first;
const size_t cached = (size_t(row) * (heads / repeat) + first / repeat) * capacity * WIDTH;
const uint base = lane % LANES * PER_LANE;
const int side = int(lane / LANES);
// Scores are logarithms to base 2, because exp2 is what GPUs have.
const float score_scale = scale * 1.44269504f;
float query_part[HEADS][PER_LANE], totals[HEADS][PER_LANE], top[HEADS], norm[HEADS];
for (uint h = 0; h < HEADS; h++) {
  top[h] = LOWEST;
  norm[h] = 0.0f;
  for (uint j = 0; j < PER_LANE; j++) {
    query_part[h][j] = EXACT || base + j < WIDTH ? score_scale * float(q[(first_head + h) * WIDTH + base + j]) : 0.0f;
    totals[h][j] = 0.0f;
  }
}
constexpr int RUN = SIDE * UNROLL;
for (int start = int(split * SIMDGROUPS + member) * RUN; start <= last; start += int(splits * SIMDGROUPS) * RUN) {
  lane_part<T, PER_LANE, EXACT> key[UNROLL], value[UNROLL];
#pragma unroll
  for (int u = 0; u < int(UNROLL); u++) {
    const int at = min(start + u * int(SIDE) + side, last);
    key[u].load(keys + cached + size_t(at) * WIDTH, base, WIDTH);
    value[u].load(values + cached + size_t(at) * WIDTH, base, WIDTH);
  }
#pragma unroll
  for (uint h = 0; h < HEADS; h++) {
    float scores[UNROLL];
    float higher = top[h];
#pragma unroll
    for (int u = 0; u < int(UNROLL); u++) {
      float score = 0.0f;
      for (uint j = 0; j < PER_LANE; j++) score = mad(query_part[h][j], float(key[u].values[j]), score);
      for (uint other = 1; other < LANES; other *= 2) score += simd_shuffle_xor(score, other);
      scores[u] = start + u * int(SIDE) + side <= last ? score : LOWEST;
      higher = max(higher, scores[u]);
    }
    const float fade = exp2(top[h] - higher);
    top[h] = higher;
    norm[h] *= fade;
    for (uint j = 0; j < PER_LANE; j++) totals[h][j] *= fade;
#pragma unroll
    for (int u = 0; u < int(UNROLL); u++) {
      const float weight = start + u * int(SIDE) + side <= last ? exp2(scores[u] - higher) : 0.0f;
      norm[h] += weight;
      for (uint j = 0; j < PER_LANE; j++) totals[h][j] = mad(weight, float(value[u].values[j]), totals[h][j]);
    }
  }
}
#pragma unroll
for (uint h = 0; h < HEADS; h++) {
  for (uint other = LANES; other < 32; other *= 2) {
    const float higher = max(top[h], simd_shuffle_xor(top[h], other));
    const float fade = exp2(top[h] - higher);
    top[h] = higher;
    norm[h] *= fade;
    norm[h] += simd_shuffle_xor(norm[h], other);
    for (uint j = 0; j < PER_LANE; j++) {
      totals[h][j] *= fade;
      totals[h][j] += simd_shuffle_xor(totals[h][j], other);
    }
  }
  if (lane == 0) {
    tops[member * HEADS + h] = top[h];
    norms[member * HEADS + h] = norm[h];
  }
  for (uint j = 0; j < PER_LANE; j++) {
    if (lane < LANES && (EXACT || base + j < WIDTH)) partial[(member * HEADS + h) * WIDTH + base + j] = totals[h][j];
  }
}
threadgroup_barrier(mem_flags::mem_threadgroup);
for (uint i = thread_index_in_threadgroup; i < uint(HEADS * WIDTH); i += SIMDGROUPS * 32) {
  const uint h = i / WIDTH;
  float higher = LOWEST, all = 0.0f, total = 0.0f;
  for (uint s = 0; s < SIMDGROUPS; s++) higher = max(higher, tops[s * HEADS + h]);
  for (uint s = 0; s < SIMDGROUPS; s++) {
    const float weight = exp2(tops[s * HEADS + h] - higher);
    all += norms[s * HEADS + h] * weight;
    total += partial[s * HEADS * WIDTH + i] * weight;
  }
  const size_t to = first_head * WIDTH + i;
  if (splits == 1) {
    const size_t from = size_t(row) * gate_stride + first * WIDTH + i;
    const float opening = is_gated ? 1.0f / (1.0f + exp(-float(gate[from]))) : 1.0f;
    out[to] = T(last < 0 ? 0.0f : total / all * opening);
  } else {
    // A head has the sums of every split, then the largest score and the norm of every split.
    device float* part = parts + (first_head + h) * splits * (WIDTH + 2);
    part[split * WIDTH + i % WIDTH] = total;
    if (i % WIDTH == 0) {
      part[splits * WIDTH + 2 * split] = higher;
      part[splits * WIDTH + 2 * split + 1] = all;
    }
  }
}
#endif
