// out[t][c] = silu(gate) * up of the expert that indices[t][c] names: rows n and between + n of its matrix times
// rms_norm(x[t]). An up lies `between` rows behind its gate: as many as columns, or all gates of all experts. Item t * chosen + c of the grid's y; zeros where there is no such expert.
constexpr uint GROUPS = WIDTH / GROUP;
wait_for_inputs();
begin_next();
const uint item = threadgroup_position_in_grid.y;
const uint expert = uint(indices[item]);
const bool exists = expert < matrices;
const size_t skipped = size_t(exists ? expert : 0) * columns * (between == columns ? 2 : 1);  // rows
const device uint* codes = weight + skipped * (WIDTH / 32 * BITS);
const device T* scale_of = scales + skipped * GROUPS;
const device T* bias_of = biases + skipped * GROUPS;
const device T* from = x + size_t(item / chosen) * WIDTH;
device T* to = out + size_t(item) * columns;
#if HIPRT_CPU_LOOPS
float values[WIDTH], totals[GROUPS];
f32x8 squares = splat(0.0f);
for (uint k = 0; k < WIDTH; k += 8) squares = mad(load8(from + k), load8(from + k), squares);
const f32x8 scale = splat(rsqrt(sum8(squares) / float(WIDTH) + eps));
for (uint k = 0; k < WIDTH; k += 8) {
  T rounded[8];
  store8(rounded, NORMED ? load8(from + k) * scale * load8(norm + k) : load8(from + k));
  store8(values + k, load8(rounded));
}
sum_groups<GROUP>(values, totals, GROUPS);
const uint first = threadgroup_position_in_grid.x * stretch;
for (uint n = first; n < min(columns, first + stretch); n++) {
  float sums[2];
  for (uint r = 0; r < 2; r++) {
    const uint row = n + r * between;
    sums[r] = row_sum<T, GROUP, BITS>(codes + row * (WIDTH / 32 * BITS), scale_of + row * GROUPS, bias_of + row * GROUPS,
                                      values, totals, GROUPS);
  }
  to[n] = T(exists ? sums[0] / (1.0f + exp(-sums[0])) * sums[1] : 0.0f);
}
#else
// A simdgroup takes PAIRS columns, so 2 * PAIRS rows: what it reads of them is under way before x is waited for.
constexpr uint ROWS = 2 * PAIRS;
constexpr uint PER = lane_codes<BITS>::COUNT, WORDS = lane_codes<BITS>::WORDS;  // of a piece
constexpr uint PIECES = WIDTH / PER;
constexpr uint ROUNDS = (PIECES + 31) / 32;
constexpr uint HELD = ROUNDS * ROWS <= 12 ? ROUNDS : ROWS <= 4 ? 8 / ROWS : 1;
constexpr uint UNITS = WIDTH / 8;
constexpr uint STEP = SIMDGROUPS * 32;
constexpr uint STAGES = (UNITS + STEP - 1) / STEP;
threadgroup pack<T, 8> staged[ROUNDS * 32 * PER / 8];
threadgroup float totals[ROUNDS * 32];
threadgroup float parts[32];
const uint lane = thread_index_in_simdgroup;
const uint simdgroup = simdgroup_index_in_threadgroup;
const uint index = simdgroup * 32 + lane;
const uint first = (threadgroup_position_in_grid.x * SIMDGROUPS + simdgroup) * PAIRS;
uint rows[ROWS];
#pragma unroll
for (uint r = 0; r < ROWS; r++) rows[r] = min(first + r / 2, columns - 1) + r % 2 * between;
pack<T, 8> mine[STAGES], factors[STAGES];
#pragma unroll
for (uint s = 0; s < STAGES; s++) {
  const uint at = min(s * STEP + index, UNITS - 1) * 8;
  mine[s] = load_eight<T>(from + at);
  if (NORMED) factors[s] = load_eight<T>(norm + at);
}
float sums[ROWS] = {};
#pragma unroll 1
for (uint base = 0; base < ROUNDS; base += HELD) {
  Pieces<T, BITS, ROWS> held[HELD];
#pragma unroll
  for (uint h = 0; h < HELD; h++) {
    const uint at = min((base + h) * 32 + lane, PIECES - 1);
#pragma unroll
    for (uint r = 0; r < ROWS; r++) {
      held[h].codes[r] = load_codes<BITS>(codes + (rows[r] * PIECES + at) * WORDS);
      held[h].scales[r] = load_value<T>(scale_of + rows[r] * GROUPS + at * PER / GROUP);
      held[h].biases[r] = load_value<T>(bias_of + rows[r] * GROUPS + at * PER / GROUP);
    }
  }
  simdgroup_barrier(mem_flags::mem_none);  // which no load is put off beyond
  if (base == 0) {
    float squares = 0.0f;
    if (NORMED) {
#pragma unroll
      for (uint s = 0; s < STAGES; s++) {
        for (int i = 0; i < 8; i++) {
          const float value = s * STEP + index < UNITS ? float(mine[s].values[i]) : 0.0f;
          squares = mad(value, value, squares);
        }
      }
      squares = sum_of_row(squares, parts, lane, simdgroup, SIMDGROUPS);
      const float factor = rsqrt(squares / float(WIDTH) + eps);
#pragma unroll
      for (uint s = 0; s < STAGES; s++) {
        for (int i = 0; i < 8; i++) {
          mine[s].values[i] = T(float(mine[s].values[i]) * factor * float(factors[s].values[i]));
        }
      }
    }
#pragma unroll
    for (uint s = 0; s < STAGES; s++) stage<T, BITS>(mine[s], s * STEP + index, UNITS, staged, totals);
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
#pragma unroll
  for (uint h = 0; h < HELD; h++) {
    const uint at = (base + h) * 32 + lane;
    if (at < PIECES) add_pieces<T, BITS, ROWS>(held[h], at, 1.0f, staged, totals, sums);
  }
}
#pragma unroll
for (uint r = 0; r < ROWS; r++) sums[r] = simd_sum(sums[r]);
#pragma unroll
for (uint p = 0; p < PAIRS; p++) {
  const float gate = sums[2 * p];
  if (lane == 0 && first + p < columns) to[first + p] = T(exists ? gate / (1.0f + exp(-gate)) * sums[2 * p + 1] : 0.0f);
}
#endif
