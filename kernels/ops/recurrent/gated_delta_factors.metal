// What the gated delta rule needs of a chunk's keys and queries beside the state. With the decay d[i][j] of what step j
// wrote until step i, the changes u of a chunk solve u[i] + beta[i] * sum over j < i of d[i][j] * (k[i] . k[j]) * u[j] =
// beta[i] * (v[i] - what the state before the chunk knows). Kept are the inverse of that triangular matrix times beta, the
// shares d[i][j] * (q[i] . k[j]) of the changes in the answers, and the decays from the chunk's start and until its end.
// A threadgroup takes a chunk of one head of keys; its simdgroups then take the heads of values that read it.
constexpr uint SIMDGROUPS = 4;
constexpr uint SLICE = KEY < 64 ? KEY : 64;
constexpr uint LINE = SLICE + 8;
threadgroup pack<float, 4> staged[2 * CHUNK * LINE / 4];
threadgroup float products[2 * CHUNK * CHUNK_LINE];
threadgroup float* key_rows = (threadgroup float*)staged;
threadgroup float* query_rows = key_rows + CHUNK * LINE;
const uint index = thread_index_in_threadgroup;
const uint lane = index % 32, own = index / 32;
const uint chunk = threadgroup_position_in_grid.x;
const uint chunks = (steps + CHUNK - 1) / CHUNK;
const uint key_head = threadgroup_position_in_grid.y % key_heads;
const uint batch = threadgroup_position_in_grid.y / key_heads;
const uint present = min(uint(CHUNK), steps - chunk * CHUNK);
const size_t first = size_t(batch) * steps + chunk * CHUNK;
const device T* keys = k + (first * key_heads + key_head) * KEY;
const device T* queries = q + (first * key_heads + key_head) * KEY;
const uint down = own / 2 * 16, right = own % 2 * 16;
float sums[2][8];
for (int i = 0; i < 8; i++) sums[0][i] = sums[1][i] = 0.0f;
for (uint from = 0; from < uint(KEY); from += SLICE) {
  threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
  for (uint i = 0; i < CHUNK * SLICE / (SIMDGROUPS * 32); i++) {
    const uint row = (i * SIMDGROUPS * 32 + index) / SLICE, column = (i * SIMDGROUPS * 32 + index) % SLICE;
    const bool is_there = row < present && from + column < uint(KEY);
    const size_t at = size_t(row) * key_heads * KEY + from + column;
    key_rows[row * LINE + column] = is_there ? float(keys[at]) : 0.0f;
    query_rows[row * LINE + column] = is_there ? float(queries[at]) : 0.0f;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
  for (uint n = 0; n < 2; n++) {
    chunk_rows<T, int(SLICE), false, const threadgroup float*> given;
    given.load((n ? query_rows : key_rows) + down * LINE, LINE, lane);
    chunk_product<16> part;
    part.template set<T>(given, key_rows + right * LINE, LINE, lane);
    for (int i = 0; i < part.COUNT; i++) sums[n][i] += part.sums[i];
  }
}
for (uint n = 0; n < 2; n++) {
  for (int i = 0; i < 8; i++) {
    const uint row = down + chunk_product<16>::row(i, lane), column = right + chunk_product<16>::column(i, lane);
    products[(n * CHUNK + row) * CHUNK_LINE + column] = sums[n][i];
  }
}
threadgroup_barrier(mem_flags::mem_threadgroup);
threadgroup float* corrections = key_rows + own * CHUNK * CHUNK;
const uint ratio = value_heads / key_heads;
for (uint other = own; other < ratio; other += SIMDGROUPS) {
  const uint head = key_head * ratio + other;
  const size_t at = (first + lane) * value_heads + head;
  const float decay = lane < present ? g[at] : 1.0f;
  const float corrected = lane < present ? beta[at] : 0.0f;
  device float* to = factors + ((size_t(batch) * value_heads + head) * chunks + chunk) * FACTORS;
  // A lane takes a column, from its own row on.
  float since = 0.0f, whole = 1.0f, opening = 1.0f;
#pragma unroll 4
  for (uint i = 0; i < CHUNK; i++) {
    const float step = simd_broadcast(decay, ushort(i));
    since = i == lane ? 1.0f : since * step;
    whole *= step;
    opening = i == lane ? whole : opening;
    const float share = simd_broadcast(corrected, ushort(i)) * since * products[i * CHUNK_LINE + lane];
    corrections[i * CHUNK + lane] = i > lane ? share : 0.0f;
    to[(CHUNK + i) * CHUNK + lane] = i < lane ? 0.0f : since * products[(CHUNK + i) * CHUNK_LINE + lane];
  }
  to[2 * CHUNK * CHUNK + lane] = opening;
  to[2 * CHUNK * CHUNK + CHUNK + lane] = since;
  simdgroup_barrier(mem_flags::mem_threadgroup);
  float solved[CHUNK];
#pragma unroll
  for (uint i = 0; i < CHUNK; i++) {
    float sum = i == lane ? 1.0f : 0.0f;
#pragma unroll
    for (uint j = 0; j < i; j++) sum = mad(-corrections[i * CHUNK + j], solved[j], sum);
    solved[i] = sum;
    to[i * CHUNK + lane] = sum * corrected;
  }
  simdgroup_barrier(mem_flags::mem_threadgroup);
}
