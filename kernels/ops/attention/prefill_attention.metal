// softmax(scale * q . keys[0..position]) . values for many rows of one query head. A threadgroup takes ROWS of them, which
// share each tile of keys and of values. The sums are kept relative to a row's largest score so far, and scaled down
// when a larger one comes.
wait_for_inputs();
begin_next();
const uint first = threadgroup_position_in_grid.x * ROWS;
const uint head = threadgroup_position_in_grid.y;
const uint present = min(uint(ROWS), rows - first);
const size_t row_stride = size_t(heads) * WIDTH;
const device T* queries = q + first * row_stride + head * WIDTH;
const device T* key_rows = keys + size_t(head / repeat) * capacity * WIDTH;
const device T* value_rows = values + size_t(head / repeat) * capacity * WIDTH;
device T* results = out + first * row_stride + head * WIDTH;
const device T* gates = gate + size_t(first) * gate_stride + head * WIDTH;
int last = -1;
for (uint i = 0; i < present; i++) last = max(last, position[first + i]);
last = min(last, int(capacity) - 1);
#if HIPRT_CPU_LOOPS
constexpr int KEYS = 32;
constexpr int WHOLE = (WIDTH + 7) / 8 * 8;
float query_rows[ROWS * WHOLE], totals[ROWS * WHOLE], tile_rows[KEYS * WHOLE], weights[ROWS * KEYS];
float tops[ROWS], norms[ROWS];
for (int i = 0; i < ROWS * WHOLE; i++) query_rows[i] = totals[i] = 0.0f;
for (int i = 0; i < KEYS * WHOLE; i++) tile_rows[i] = 0.0f;
for (uint m = 0; m < present; m++) {
  for (int i = 0; i < WIDTH; i++) query_rows[m * WHOLE + i] = scale * float(queries[m * row_stride + i]);
  tops[m] = -INFINITY;
  norms[m] = 0.0f;
}
for (int start = 0; start <= last; start += KEYS) {
  const int seen = min(KEYS, last + 1 - start);
  for (int p = 0; p < seen; p++) {
    for (int i = 0; i < WIDTH; i++) tile_rows[p * WHOLE + i] = float(key_rows[size_t(start + p) * WIDTH + i]);
  }
  for (int p = 0; p < KEYS; p++) {
    f32x8 dots[ROWS];
    for (int m = 0; m < ROWS; m++) dots[m] = splat(0.0f);
    for (int i = 0; i < WHOLE; i += 8) {
      const f32x8 key = load8(tile_rows + p * WHOLE + i);
      for (int m = 0; m < ROWS; m++) dots[m] = mad(load8(query_rows + m * WHOLE + i), key, dots[m]);
    }
    for (int m = 0; m < ROWS; m++) weights[m * KEYS + p] = sum8(dots[m]);
  }
  for (int p = 0; p < seen; p++) {
    for (int i = 0; i < WIDTH; i++) tile_rows[p * WHOLE + i] = float(value_rows[size_t(start + p) * WIDTH + i]);
  }
  for (uint m = 0; m < present; m++) {
    const int ahead = min(position[first + m], last) - start;
    float* row = weights + m * KEYS;
    float top = tops[m];
    for (int p = 0; p < KEYS; p++) {
      row[p] = p <= ahead ? row[p] : -INFINITY;
      top = max(top, row[p]);
    }
    // A row that sees nothing has no largest score to be relative to.
    const float base = top > -INFINITY ? top : 0.0f;
    const float fade = exp(tops[m] - base);
    f32x8 sums = splat(0.0f);
    for (int p = 0; p < KEYS; p += 8) {
      const f32x8 weight = exp_of(load8(row + p) - splat(base));
      store8(row + p, weight);
      sums += weight;
    }
    tops[m] = top;
    norms[m] = norms[m] * fade + sum8(sums);
    for (int i = 0; i < WHOLE; i++) totals[m * WHOLE + i] *= fade;
  }
  for (int i = 0; i < WHOLE; i += 8) {
    f32x8 parts[ROWS];
    for (int m = 0; m < ROWS; m++) parts[m] = load8(totals + m * WHOLE + i);
    for (int p = 0; p < seen; p++) {
      const f32x8 value = load8(tile_rows + p * WHOLE + i);
      for (int m = 0; m < ROWS; m++) parts[m] = mad(splat(weights[m * KEYS + p]), value, parts[m]);
    }
    for (int m = 0; m < ROWS; m++) store8(totals + m * WHOLE + i, parts[m]);
  }
}
for (uint m = 0; m < present; m++) {
  for (int i = 0; i < WIDTH; i++) {
    const float opening = is_gated ? 1.0f / (1.0f + exp(-float(gates[size_t(m) * gate_stride + i]))) : 1.0f;
    results[m * row_stride + i] = T(norms[m] > 0.0f ? totals[m * WHOLE + i] / norms[m] * opening : 0.0f);
  }
}
#else
#if defined(HIPRT_TILE_FACTORS)
if (sizeof(T) == 2) {
  turned_attention<T, WIDTH, ROWS>::run(queries, row_stride, key_rows, value_rows, position + first, int(present), last, scale,
                                        is_gated != 0, gates, gate_stride, results, thread_index_in_threadgroup);
  return;
}
#endif
// A wave takes 16 rows, with their scores, their shares and their sums.
constexpr int OWN = 16;
constexpr int KEYS = 16;
constexpr uint LANES = 32;
constexpr uint THREADS = ROWS / OWN * LANES;
constexpr int RUN = 16 / sizeof(T);
constexpr int DEPTH = (WIDTH + 15) / 16 * 16;
constexpr int LINE = tile_line<T, WIDTH>();
constexpr int SCORE_LINE = tile_line<float, KEYS>();
constexpr int SHARE_LINE = SCORE_LINE * int(sizeof(float) / sizeof(T));
threadgroup pack<T, RUN> q_tiles[ROWS * LINE / RUN];
threadgroup pack<T, RUN> kv_tiles[KEYS * LINE / RUN];
threadgroup pack<float, 4> score_tiles[ROWS * SCORE_LINE / 4];
threadgroup float factors[ROWS];
const uint index = thread_index_in_threadgroup;
const uint lane = index % LANES;
const uint own = index / LANES * OWN;
threadgroup T* q_tile = (threadgroup T*)q_tiles;
threadgroup T* kv_tile = (threadgroup T*)kv_tiles;
threadgroup float* scores = (threadgroup float*)score_tiles + own * SCORE_LINE;
threadgroup T* shares = (threadgroup T*)scores;
load_rows<T, WIDTH, ROWS, THREADS>(q_tile, queries, row_stride, int(present) - 1, index);
// Two lanes share the scores of a row.
constexpr int MINE = KEYS / 2;
const uint row = lane / 2;
const int limit = own + row < present ? min(position[first + own + row], last) : -1;
threadgroup float* my_scores = scores + row * SCORE_LINE + lane % 2 * MINE;
threadgroup T* my_shares = shares + row * SHARE_LINE + lane % 2 * MINE;
float top = -INFINITY;
float norm = 0.0f;
#if HIPRT_HAS_MMA
tile<T, OWN, DEPTH, sizeof(T) == 2> sums;
#else
tile<T, OWN, DEPTH, false> sums;
#endif
#pragma unroll
for (int i = 0; i < sums.COUNT; i++) sums.sums[i] = 0.0f;
for (int start = 0; start <= last; start += KEYS) {
  load_rows<T, WIDTH, KEYS, THREADS>(kv_tile, key_rows + size_t(start) * WIDTH, WIDTH, last - start, index);
  wait_for_tiles();
  threadgroup_barrier(mem_flags::mem_threadgroup);
  tile<T, OWN, KEYS> products;
#pragma unroll
  for (int i = 0; i < products.COUNT; i++) products.sums[i] = 0.0f;
  products.template add<false>(q_tile + own * LINE, LINE, kv_tile, LINE, DEPTH, lane);
#pragma unroll
  for (int i = 0; i < products.COUNT; i++) {
    scores[products.row(i, lane) * SCORE_LINE + products.column(i, lane)] = products.sums[i];
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  load_rows<T, WIDTH, KEYS, THREADS>(kv_tile, value_rows + size_t(start) * WIDTH, WIDTH, last - start, index);
  float mine[MINE];
  float higher = top;
#pragma unroll
  for (int j = 0; j < MINE; j++) {
    mine[j] = start + int(lane % 2) * MINE + j <= limit ? scale * my_scores[j] : -INFINITY;
    higher = max(higher, mine[j]);
  }
  higher = max(higher, simd_shuffle_xor(higher, 1));
  // A row that sees nothing has no largest score to be relative to.
  const float base = higher > -INFINITY ? higher : 0.0f;
  const float fade = exp(top - base);
  top = higher;
  float total = 0.0f;
#pragma unroll
  for (int j = 0; j < MINE; j++) {
    mine[j] = exp(mine[j] - base);
    total += mine[j];
  }
  norm = norm * fade + total + simd_shuffle_xor(total, 1);
  // The shares overwrite the scores, which all lanes have read.
  simdgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
  for (int j = 0; j < MINE; j += 8) store_to_tile(my_shares + j, mine + j);
  if (lane % 2 == 0) factors[own + row] = fade;
  wait_for_tiles();
  threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
  for (int i = 0; i < sums.COUNT; i++) sums.sums[i] *= factors[own + sums.row(i, lane)];
  sums.template add<true>(shares, SHARE_LINE, kv_tile, LINE, KEYS, lane);
  threadgroup_barrier(mem_flags::mem_threadgroup);
}
if (lane % 2 == 0) factors[own + row] = norm > 0.0f ? 1.0f / norm : 0.0f;
simdgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
for (int i = 0; i < sums.COUNT; i++) {
  const uint m = own + sums.row(i, lane);
  const uint n = sums.column(i, lane);
  if (m < present && (WIDTH % 16 == 0 || n < WIDTH)) {
    const float opening = is_gated ? 1.0f / (1.0f + exp(-float(gates[size_t(m) * gate_stride + n]))) : 1.0f;
    results[m * row_stride + n] = rounded<T>(sums.sums[i] * factors[m] * opening);
  }
}
#endif
