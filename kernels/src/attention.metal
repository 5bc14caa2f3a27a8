// softmax(scale * q . keys[0..position]) . values of one query head a threadgroup, in one pass: the sums are kept
// relative to the largest score so far and scaled down when a larger one comes.
uint head = threadgroup_position_in_grid.x;
int last = min(position[0], int(capacity) - 1);
const device T* query = q + size_t(head) * WIDTH;
const device T* key_rows = keys + size_t(head / repeat) * capacity * WIDTH;
const device T* value_rows = values + size_t(head / repeat) * capacity * WIDTH;
device T* result = out + size_t(head) * WIDTH;
#if HIPRT_CPU_LOOPS
constexpr int TILE = 32;
constexpr int WHOLE = WIDTH / 8 * 8;
float asked[WIDTH], totals[WIDTH], weights[TILE];
float top = -INFINITY;
float norm = 0.0f;
for (int i = 0; i < WIDTH; i++) {
  asked[i] = scale * float(query[i]);
  totals[i] = 0.0f;
}
for (int start = 0; start <= last; start += TILE) {
  int count = min(TILE, last + 1 - start);
  float tile_top = top;
  for (int p = 0; p < count; p++) {
    const device T* key = key_rows + size_t(start + p) * WIDTH;
    f32x8 products = splat(0.0f);
    for (int i = 0; i < WHOLE; i += 8) products = mad(load8(asked + i), load8(key + i), products);
    float score = sum8(products);
    for (int i = WHOLE; i < WIDTH; i++) score = mad(asked[i], float(key[i]), score);
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
for (int i = 0; i < WIDTH; i++) result[i] = T(last < 0 ? 0.0f : totals[i] / norm);
#else
// Simdgroup s takes positions s, s + SIMDGROUPS, ...; a lane takes neighbouring elements of the head.
constexpr int PER_LANE = (WIDTH + 31) / 32;
constexpr bool EXACT = WIDTH % 32 == 0;
threadgroup float tops[SIMDGROUPS];
threadgroup float norms[SIMDGROUPS];
threadgroup float partial[SIMDGROUPS * WIDTH];
int lane = int(thread_index_in_simdgroup);
int member = int(simdgroup_index_in_threadgroup);
int base = lane * PER_LANE;
float asked[PER_LANE], totals[PER_LANE];
for (int j = 0; j < PER_LANE; j++) {
  asked[j] = EXACT || base + j < WIDTH ? scale * float(query[base + j]) : 0.0f;
  totals[j] = 0.0f;
}
float top = -INFINITY;
float norm = 0.0f;
for (int p = member; p <= last; p += SIMDGROUPS) {
  const device T* key = key_rows + size_t(p) * WIDTH + base;
  const device T* value = value_rows + size_t(p) * WIDTH + base;
  float score = 0.0f;
  for (int j = 0; j < PER_LANE; j++) {
    if (EXACT || base + j < WIDTH) score = mad(asked[j], float(key[j]), score);
  }
  score = simd_sum(score);
  float higher = max(top, score);
  float fade = exp(top - higher);
  float weight = exp(score - higher);
  top = higher;
  norm = mad(norm, fade, weight);
  for (int j = 0; j < PER_LANE; j++) {
    if (EXACT || base + j < WIDTH) totals[j] = mad(weight, float(value[j]), totals[j] * fade);
  }
}
if (lane == 0) {
  tops[member] = top;
  norms[member] = norm;
}
for (int j = 0; j < PER_LANE; j++) {
  if (EXACT || base + j < WIDTH) partial[member * WIDTH + base + j] = totals[j];
}
threadgroup_barrier(mem_flags::mem_threadgroup);
top = tops[0];
for (int s = 1; s < SIMDGROUPS; s++) top = max(top, tops[s]);
norm = 0.0f;
for (int s = 0; s < SIMDGROUPS; s++) norm += norms[s] * exp(tops[s] - top);
for (int i = int(thread_index_in_threadgroup); i < WIDTH; i += SIMDGROUPS * 32) {
  float total = 0.0f;
  for (int s = 0; s < SIMDGROUPS; s++) total += partial[s * WIDTH + i] * exp(tops[s] - top);
  result[i] = T(last < 0 ? 0.0f : total / norm);
}
#endif
