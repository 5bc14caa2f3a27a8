// The gated delta rule by chunks: with the factors that gated_delta_factors leaves of each chunk, its changes, its answers
// and the next state are products of matrices. A threadgroup takes VALUES rows of a state, which lie in its memory from
// the first chunk to the last.
constexpr uint SIMDGROUPS = 4;
constexpr uint LINE = KEY + 8;
constexpr uint COLUMNS = KEY / SIMDGROUPS;  // of the state, that a simdgroup brings up to date
constexpr uint RUN = 4;                     // elements of a chunk's rows that a thread brings at once
constexpr uint RUNS = KEY / RUN, EACH = CHUNK * RUNS / (SIMDGROUPS * 32);
threadgroup pack<float, 4> row_lines[CHUNK * LINE / 4];
threadgroup pack<float, 4> kept_lines[VALUES * LINE / 4];
threadgroup pack<float, 4> error_lines[VALUES * CHUNK_LINE / 4];
threadgroup pack<float, 4> change_lines[VALUES * CHUNK_LINE / 4];
threadgroup float* rows = (threadgroup float*)row_lines;  // queries, then keys
threadgroup float* kept = (threadgroup float*)kept_lines;
threadgroup float* errors = (threadgroup float*)error_lines;  // by rows of the state, as the changes
threadgroup float* changes = (threadgroup float*)change_lines;
const uint index = thread_index_in_threadgroup;
const uint lane = index % 32, own = index / 32;
const uint item = threadgroup_position_in_grid.y;  // counts the value heads of all sequences
const uint head = item % value_heads;
const uint batch = item / value_heads;
const uint key_head = head / (value_heads / key_heads);
const uint from = threadgroup_position_in_grid.x * VALUES;
const uint there = min(uint(VALUES), value_width - from);
const uint chunks = (steps + CHUNK - 1) / CHUNK;
const uint down = own % 2 * 16, right = own / 2 * 8;  // where this simdgroup's part of a chunk's products is
device float* states = state + (size_t(item) * value_width + from) * KEY;
for (uint i = index; i < VALUES * KEY; i += SIMDGROUPS * 32) {
  kept[i / KEY * LINE + i % KEY] = i / KEY < there ? states[i] : 0.0f;
}
const size_t row_runs = size_t(key_heads) * RUNS;
const size_t runs_from = size_t(batch) * steps * row_runs + key_head * RUNS;
pack<T, RUN> held[EACH];
#pragma unroll
for (uint i = 0; i < EACH; i++) {
  const uint at = i * SIMDGROUPS * 32 + index, row = at / RUNS;
  held[i] = {{T(0.0f), T(0.0f), T(0.0f), T(0.0f)}};
  if (row < steps) held[i] = ((const device pack<T, RUN>*)q)[runs_from + row * row_runs + at % RUNS];
}
for (uint chunk = 0; chunk < chunks; chunk++) {
  const uint present = min(uint(CHUNK), steps - chunk * CHUNK);
  const size_t first = size_t(batch) * steps + chunk * CHUNK;
  const device float* inverse = factors + (size_t(item) * chunks + chunk) * FACTORS;
  const device float* openings = inverse + 2 * CHUNK * CHUNK;
  const device float* endings = openings + CHUNK;
  // What is in memory comes into registers while other things are multiplied.
  chunk_rows<float, int(CHUNK), false, const device float*> solving, sharing;
  solving.load(inverse + down * CHUNK, CHUNK, lane);
  sharing.load(inverse + (CHUNK + down) * CHUNK, CHUNK, lane);
  chunk_product<8> read, known, change, answer;
  float values[known.COUNT], opening[known.COUNT], ending[known.COUNT];
#pragma unroll
  for (int i = 0; i < known.COUNT; i++) {
    const uint row = down + known.row(i, lane), column = right + known.column(i, lane);
    const bool is_there = row < present && column < there;
    values[i] = is_there ? float(v[((first + row) * value_heads + head) * value_width + from + column]) : 0.0f;
    opening[i] = openings[row];
    ending[i] = endings[row];
  }
  const float whole = openings[CHUNK - 1];
#pragma unroll
  for (uint turn = 0; turn < 2; turn++) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
    for (uint i = 0; i < EACH; i++) {
      pack<float, RUN> run;
      for (uint j = 0; j < RUN; j++) run.values[j] = float(held[i].values[j]);
      const uint at = i * SIMDGROUPS * 32 + index;
      row_lines[at / RUNS * (LINE / RUN) + at % RUNS] = run;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const device pack<T, RUN>* given = (const device pack<T, RUN>*)(turn ? q : k);
#pragma unroll
    for (uint i = 0; i < EACH; i++) {
      const uint at = i * SIMDGROUPS * 32 + index, row = (chunk + turn) * CHUNK + at / RUNS;
      held[i] = {{T(0.0f), T(0.0f), T(0.0f), T(0.0f)}};
      if (row < steps) held[i] = given[runs_from + row * row_runs + at % RUNS];
    }
    chunk_rows<T, KEY, false, const threadgroup float*> own_rows;
    own_rows.load(rows + down * LINE, LINE, lane);
    known.template set<float>(own_rows, kept + right * LINE, LINE, lane);
    if (turn == 0) read = known;
  }
#pragma unroll
  for (int i = 0; i < known.COUNT; i++) {
    const uint at = (right + known.column(i, lane)) * CHUNK_LINE + down + known.row(i, lane);
    errors[at] = values[i] - opening[i] * known.sums[i];
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  change.template set<float>(solving, errors + right * CHUNK_LINE, CHUNK_LINE, lane);
#pragma unroll
  for (int i = 0; i < change.COUNT; i++) {
    changes[(right + change.column(i, lane)) * CHUNK_LINE + down + change.row(i, lane)] = change.sums[i];
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
  for (int i = 0; i < change.COUNT; i++) {
    const uint at = (right + change.column(i, lane)) * CHUNK_LINE + down + change.row(i, lane);
    errors[at] = change.sums[i] * ending[i];
  }
  answer.template set<float>(sharing, changes + right * CHUNK_LINE, CHUNK_LINE, lane);
#pragma unroll
  for (int i = 0; i < answer.COUNT; i++) {
    const uint row = down + answer.row(i, lane), column = right + answer.column(i, lane);
    if (row >= present || column >= there) continue;
    const float total = mad(opening[i], read.sums[i], answer.sums[i]);
    out[((first + row) * value_heads + head) * value_width + from + column] = T(total);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  chunk_rows<float, int(CHUNK), true, const threadgroup float*> changed;
  changed.load(errors, CHUNK_LINE, lane);
  chunk_product<int(COLUMNS)> written;
  written.template set<T>(changed, rows + own * COLUMNS, LINE, lane);
#pragma unroll
  for (int i = 0; i < written.COUNT; i++) {
    threadgroup float* cell = kept + written.row(i, lane) * LINE + own * COLUMNS + written.column(i, lane);
    *cell = mad(whole, *cell, written.sums[i]);
  }
}
threadgroup_barrier(mem_flags::mem_threadgroup);
for (uint i = index; i < there * KEY; i += SIMDGROUPS * 32) states[i] = kept[i / KEY * LINE + i % KEY];
