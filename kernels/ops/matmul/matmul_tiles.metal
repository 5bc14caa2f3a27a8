// out[m][n] = sum over k of a[m][k] * b[k][n], of stacks of matrices, for many rows: a threadgroup takes ROWS of them and
// COLUMNS columns, and brings a step of both to threadgroup memory while it multiplies the step before. DOTS: the columns of
// b lie in memory as rows do; else they are turned on the way.
constexpr uint COLUMNS = 64;
constexpr uint THREADS = 128;
constexpr uint DEPTH = 32;
constexpr uint LINE = tile_line<T, DEPTH>();
constexpr uint RUN = 16 / sizeof(T), RUNS = DEPTH / RUN;
constexpr uint LANES = tile_lanes<T>();
constexpr uint WAVES = THREADS / LANES;
constexpr uint DOWN = ROWS * WAVES >= 256 ? 2 : 1;  // waves below each other
constexpr uint LOADS = ROWS * RUNS / THREADS;
typedef tile<T, ROWS / DOWN, COLUMNS * DOWN / WAVES> Part;
threadgroup pack<T, RUN> a_tiles[2 * ROWS * LINE / RUN];
threadgroup pack<T, RUN> b_tiles[2 * COLUMNS * LINE / RUN];
threadgroup T* a_tile = (threadgroup T*)a_tiles;
threadgroup T* b_tile = (threadgroup T*)b_tiles;
const uint index = thread_index_in_threadgroup;
const uint lane = index % LANES;
const uint down = index / LANES % DOWN * (ROWS / DOWN);
const uint beside = index / LANES / DOWN * (COLUMNS * DOWN / WAVES);
const uint tiles = (lines + ROWS - 1) / ROWS;
const uint batch = threadgroup_position_in_grid.y / tiles;
const uint first = threadgroup_position_in_grid.y % tiles * ROWS;
const uint first_column = threadgroup_position_in_grid.x * COLUMNS;
const device T* left = a + size_t(batch / left_divisor % left_modulus) * lines * depth;
const device T* right = b + size_t(batch / right_divisor % right_modulus) * depth * columns;

// Where this thread's runs begin. Rows and columns beyond the last are the last's again.
const device T* a_from[LOADS];
const device T* b_from[2];
#pragma unroll
for (uint i = 0; i < LOADS; i++) {
  const uint piece = index + i * THREADS;
  a_from[i] = left + size_t(min(first + piece / RUNS, lines - 1)) * depth + piece % RUNS * RUN;
}
const uint pair = index / RUN * 2, beside_run = index % RUN * RUN;  // two rows of b, and a run of their columns
#pragma unroll
for (uint i = 0; i < 2; i++) {
  const uint piece = index + i * THREADS;
  b_from[i] = DOTS ? right + size_t(min(first_column + piece / RUNS, columns - 1)) * depth + piece % RUNS * RUN
                   : right + size_t(pair + i) * columns + min(first_column + beside_run, columns - RUN);
}
uint a_held[LOADS * 4], b_held[2 * 4];
#pragma unroll
for (uint i = 0; i < LOADS; i++) load_run(a_held + 4 * i, a_from[i]);
#pragma unroll
for (uint i = 0; i < 2; i++) load_run(b_held + 4 * i, b_from[i]);

Part part;
#pragma unroll
for (int i = 0; i < Part::COUNT; i++) part.sums[i] = 0.0f;
const uint steps = depth / DEPTH;
for (uint t = 0; t < steps; t++) {
  threadgroup T* a_side = a_tile + (t & 1u) * (ROWS * LINE);
  threadgroup T* b_side = b_tile + (t & 1u) * (COLUMNS * LINE);
#pragma unroll
  for (uint i = 0; i < LOADS; i++) {
    const uint piece = index + i * THREADS;
    store_run(a_side + piece / RUNS * LINE + piece % RUNS * RUN, a_held + 4 * i);
  }
  if (DOTS) {
#pragma unroll
    for (uint i = 0; i < 2; i++) {
      const uint piece = index + i * THREADS;
      store_run(b_side + piece / RUNS * LINE + piece % RUNS * RUN, b_held + 4 * i);
    }
  } else {
    threadgroup T* turned = b_side + beside_run * LINE + pair;
#pragma unroll
    for (uint i = 0; i < 4; i++) {
      const uint upper = b_held[i], lower = b_held[4 + i];
      *(threadgroup uint*)(turned + 2 * i * LINE) = (upper & 0xffffu) | lower << 16;
      *(threadgroup uint*)(turned + (2 * i + 1) * LINE) = upper >> 16 | (lower & 0xffff0000u);
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (t + 1 < steps) {
#pragma unroll
    for (uint i = 0; i < LOADS; i++) load_run(a_held + 4 * i, a_from[i] + (t + 1) * DEPTH);
#pragma unroll
    for (uint i = 0; i < 2; i++) load_run(b_held + 4 * i, b_from[i] + size_t((t + 1) * DEPTH) * (DOTS ? 1 : columns));
  }
  part.template add<false>(a_side + down * LINE, LINE, b_side + beside * LINE, LINE, DEPTH, lane);
}
#pragma unroll
for (int i = 0; i < Part::COUNT; i++) {
  const uint m = first + down + Part::row(i, lane);
  const uint n = first_column + beside + Part::column(i, lane);
  if (m < lines && n < columns) out[(size_t(batch) * lines + m) * columns + n] = rounded<T>(part.sums[i]);
}
