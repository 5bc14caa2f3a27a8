// out[t] = residual[t] + sum over c of shares[t][c] * (matrix of expert indices[t][c] times x[t][c]). Token t is the
// grid's y; an expert that does not exist adds nothing.
constexpr uint GROUPS = WIDTH / GROUP;
wait_for_inputs();
begin_next();
const uint token = threadgroup_position_in_grid.y;
const device T* from = x + size_t(token) * CHOSEN * WIDTH;
const device int* places = indices + size_t(token) * CHOSEN;
const device T* share_of = shares + size_t(token) * CHOSEN;
const size_t out_row = size_t(token) * columns;
#if HIPRT_CPU_LOOPS
float values[CHOSEN * WIDTH], totals[CHOSEN * GROUPS];
for (uint k = 0; k < CHOSEN * WIDTH; k += 8) store8(values + k, load8(from + k));
sum_groups<GROUP>(values, totals, CHOSEN * GROUPS);
const uint first = threadgroup_position_in_grid.x * stretch;
for (uint n = first; n < min(columns, first + stretch); n++) {
  float sum = is_residual ? float(residual[out_row + n]) : 0.0f;
  for (uint c = 0; c < CHOSEN; c++) {
    if (uint(places[c]) >= matrices) continue;
    const size_t row = size_t(places[c]) * columns + n;
    sum = mad(float(share_of[c]),
              row_sum<T, GROUP, BITS>(weight + row * (WIDTH / 32 * BITS), scales + row * GROUPS, biases + row * GROUPS,
                                      values + c * WIDTH, totals + c * GROUPS, GROUPS),
              sum);
  }
  out[out_row + n] = T(sum);
}
#else
// A simdgroup takes ROWS rows of every expert: lanes share the pieces of all experts, so that none is idle at their ends.
constexpr uint PER = lane_codes<BITS>::COUNT, WORDS = lane_codes<BITS>::WORDS;  // of a piece
constexpr uint PIECES = WIDTH / PER;
constexpr uint ALL = CHOSEN * PIECES;
constexpr uint ROUNDS = (ALL + 31) / 32;
constexpr uint HELD = ROUNDS * ROWS <= 12 ? ROUNDS : ROWS <= 4 ? 8 / ROWS : 1;
constexpr uint UNITS = CHOSEN * WIDTH / 8;
constexpr uint STEP = SIMDGROUPS * 32;
constexpr uint STAGES = (UNITS + STEP - 1) / STEP;
threadgroup pack<T, 8> staged[ROUNDS * 32 * PER / 8];
threadgroup float totals[ROUNDS * 32];
const uint lane = thread_index_in_simdgroup;
const uint simdgroup = simdgroup_index_in_threadgroup;
const uint index = simdgroup * 32 + lane;
const uint first = (threadgroup_position_in_grid.x * SIMDGROUPS + simdgroup) * ROWS;
pack<T, 8> mine[STAGES];
#pragma unroll
for (uint s = 0; s < STAGES; s++) mine[s] = load_eight<T>(from + min(s * STEP + index, UNITS - 1) * 8);
float sums[ROWS] = {}, added[ROWS];
#pragma unroll
for (uint r = 0; r < ROWS; r++) {
  added[r] = is_residual ? float(load_value<T>(residual + out_row + min(first + r, columns - 1))) : 0.0f;
}
#pragma unroll 1
for (uint base = 0; base < ROUNDS; base += HELD) {
  Pieces<T, BITS, ROWS> held[HELD];
  float share[HELD];
#pragma unroll
  for (uint h = 0; h < HELD; h++) {
    const uint flat = min((base + h) * 32 + lane, ALL - 1);
    const uint expert = uint(places[flat / PIECES]);
    const uint at = flat % PIECES;
    share[h] = expert < matrices ? float(load_value<T>(share_of + flat / PIECES)) : 0.0f;
#pragma unroll
    for (uint r = 0; r < ROWS; r++) {
      const size_t row = size_t(expert < matrices ? expert : 0) * columns + min(first + r, columns - 1);
      held[h].codes[r] = load_codes<BITS>(weight + (row * PIECES + at) * WORDS);
      held[h].scales[r] = load_value<T>(scales + row * GROUPS + at * PER / GROUP);
      held[h].biases[r] = load_value<T>(biases + row * GROUPS + at * PER / GROUP);
    }
  }
  simdgroup_barrier(mem_flags::mem_none);  // which no load is put off beyond
  if (base == 0) {
#pragma unroll
    for (uint s = 0; s < STAGES; s++) stage<T, BITS>(mine[s], s * STEP + index, UNITS, staged, totals);
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
#pragma unroll
  for (uint h = 0; h < HELD; h++) {
    const uint flat = (base + h) * 32 + lane;
    if (flat < ALL) add_pieces<T, BITS, ROWS>(held[h], flat, share[h], staged, totals, sums);
  }
}
#pragma unroll
for (uint r = 0; r < ROWS; r++) {
  const float sum = simd_sum(sums[r]);
  if (lane == 0 && first + r < columns) out[out_row + first + r] = T(sum + added[r]);
}
#endif
