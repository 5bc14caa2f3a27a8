// One step of a gated-delta layer after its input product, whose columns are q | k | v | z | b | a: convolution and silu of
// q, k and v, norms of q and k, gates, the gated delta rule (gated_delta.metal), and with NORMED the norm of each head's
// answer, multiplied by silu(z). A threadgroup takes a head of keys and the RATIO heads of values that read it: no other
// threadgroup reads or writes its channels of the convolution's state.
constexpr uint ROWS = RATIO * VALUE;
constexpr uint CHANNELS = 2 * KEY + ROWS;
const uint key_head = threadgroup_position_in_grid.x;
const uint batch = threadgroup_position_in_grid.y;
const uint values_from = 2 * key_heads * KEY;           // columns
const uint all_rows = key_heads * ROWS;
const uint channels = values_from + all_rows;
const uint gates_from = channels + all_rows;
const uint columns = gates_from + 2 * key_heads * RATIO;
const device T* from = proj + size_t(batch) * columns;
device T* kept = conv + size_t(batch) * (TAPS - 1) * channels;
device float* cells_of = state + (size_t(batch) * all_rows + key_head * ROWS) * KEY;
device T* to = out + size_t(batch) * all_rows + key_head * ROWS;
#if HIPRT_CPU_LOOPS
constexpr uint STEP = 1;
const uint index = 0;
float mixed[CHANNELS], betas[RATIO], decays[RATIO];
thread float* flat = mixed;
wait_for_inputs();
begin_next();
#else
// Eight lanes share a row of the state, four of its columns each at a time.
constexpr uint STEP = SIMDGROUPS * 32;
constexpr uint PACKS = (KEY + 31) / 32;
constexpr uint PASS = SIMDGROUPS * 4;  // rows that are worked on together
constexpr uint PASSES = (ROWS + PASS - 1) / PASS;
constexpr uint HELD = PASSES * PACKS <= 16 ? PASSES : PACKS <= 8 ? 16 / PACKS : 1;
threadgroup pack<float, 4> mixed[CHANNELS / 4];
threadgroup float* flat = (threadgroup float*)mixed;
threadgroup float betas[RATIO], decays[RATIO];
const uint lane = thread_index_in_simdgroup;
const uint index = simdgroup_index_in_threadgroup * 32 + lane;
const uint part = lane % 8;
pack<float, 4> cells[HELD][PACKS];
#pragma unroll
for (uint h = 0; h < HELD; h++) {
  const uint row = min(h * PASS + index / 8, ROWS - 1);
#pragma unroll
  for (uint j = 0; j < PACKS; j++) {
    cells[h][j] = ((const device pack<float, 4>*)cells_of)[row * (KEY / 4) + min(j * 8 + part, uint(KEY / 4 - 1))];
  }
}
wait_for_inputs();
begin_next();
// All that later parts take is read here, so that the loads are waited for once.
constexpr uint SHARE = NORMED ? (ROWS + STEP - 1) / STEP : 1;
T opens[SHARE], factors[SHARE];
#pragma unroll
for (uint s = 0; s < SHARE; s++) {
  const uint row = min(s * STEP + index, ROWS - 1);
  opens[s] = load_value<T>(from + channels + key_head * ROWS + row);
  factors[s] = load_value<T>(norm + (NORMED ? row % VALUE : 0u));
}
const uint head = key_head * RATIO + min(index, uint(RATIO - 1));
const T gates[3] = {load_value<T>(from + gates_from + head), load_value<T>(from + gates_from + key_heads * RATIO + head),
                    load_value<T>(dt_bias + head)};
const float rate = load_value<float>(a_log + head);
#endif
for (uint c = index; c < CHANNELS; c += STEP) {
  const uint channel = c < KEY       ? key_head * KEY + c
                       : c < 2 * KEY ? (key_heads + key_head) * KEY + c - KEY
                                     : values_from + key_head * ROWS + c - 2 * KEY;
  T window[TAPS];
  for (uint j = 0; j + 1 < TAPS; j++) window[j] = kept[j * channels + channel];
  window[TAPS - 1] = from[channel];
  float sum = 0.0f;
  for (uint j = 0; j < TAPS; j++) sum = mad(float(weight[channel * TAPS + j]), float(window[j]), sum);
  for (uint j = 0; j + 1 < TAPS; j++) kept[j * channels + channel] = window[j + 1];
  flat[c] = sum * sigmoid_of(sum);
}
#if HIPRT_CPU_LOOPS
for (uint r = 0; r < RATIO; r++) {
  const uint head = key_head * RATIO + r;
  betas[r] = sigmoid_of(float(from[gates_from + head]));
  decays[r] = decay_of(float(from[gates_from + key_heads * RATIO + head]), float(dt_bias[head]), a_log[head]);
}
f32x8 query_squares = splat(0.0f), key_squares = splat(0.0f);
for (uint c = 0; c < KEY; c += 8) {
  query_squares = mad(load8(mixed + c), load8(mixed + c), query_squares);
  key_squares = mad(load8(mixed + KEY + c), load8(mixed + KEY + c), key_squares);
}
const float query_scale = rsqrt(sum8(query_squares) / float(KEY) + eps) / float(KEY);
const float key_scale = rsqrt(sum8(key_squares) / float(KEY) + eps) * rsqrt(float(KEY));
float answers[VALUE];
for (uint r = 0; r < RATIO; r++) {
  const uint head = key_head * RATIO + r;
  const f32x8 decay = splat(decays[r]);
  float squares = 0.0f;
  for (uint row = 0; row < VALUE; row++) {
    device float* cells = cells_of + (r * VALUE + row) * KEY;
    f32x8 known = splat(0.0f), answer = splat(0.0f);
    for (uint c = 0; c < KEY; c += 8) known = mad(load8(cells + c) * decay, load8(mixed + KEY + c), known);
    const float change = (mixed[2 * KEY + r * VALUE + row] - key_scale * sum8(known)) * betas[r] * key_scale;
    for (uint c = 0; c < KEY; c += 8) {
      const f32x8 cell = mad(load8(mixed + KEY + c), splat(change), load8(cells + c) * decay);
      store8(cells + c, cell);
      answer = mad(cell, load8(mixed + c), answer);
    }
    answers[row] = query_scale * sum8(answer);
    squares = mad(answers[row], answers[row], squares);
  }
  const float scale = rsqrt(squares / float(VALUE) + norm_eps);
  for (uint row = 0; row < VALUE; row++) {
    const float open = NORMED ? float(from[channels + head * VALUE + row]) : 0.0f;
    const float normal = NORMED ? answers[row] * scale * float(norm[row]) * (open * sigmoid_of(open)) : answers[row];
    to[r * VALUE + row] = T(normal);
  }
}
#else
if (index < RATIO) {
  betas[index] = sigmoid_of(float(gates[0]));
  decays[index] = decay_of(float(gates[1]), float(gates[2]), rate);
}
threadgroup float answers[ROWS];
threadgroup float parts[PASSES * PASS / 4];  // squares of four rows' answers
threadgroup_barrier(mem_flags::mem_threadgroup);
const threadgroup pack<float, 4>* queries = mixed;
const threadgroup pack<float, 4>* keys = mixed + KEY / 4;
float query_scale = 0.0f, key_scale = 0.0f;
#pragma unroll
for (uint j = 0; j < PACKS; j++) {
  for (int i = 0; i < 4 && j * 8 + part < KEY / 4; i++) {
    const float query = queries[j * 8 + part].values[i], key = keys[j * 8 + part].values[i];
    query_scale = mad(query, query, query_scale);
    key_scale = mad(key, key, key_scale);
  }
}
query_scale = rsqrt(sum_of_eight(query_scale) / float(KEY) + eps) / float(KEY);
key_scale = rsqrt(sum_of_eight(key_scale) / float(KEY) + eps) * rsqrt(float(KEY));
#pragma unroll 1
for (uint base = 0; base < PASSES; base += HELD) {
#pragma unroll
  for (uint h = 0; h < HELD; h++) {
    const uint given = (base + h) * PASS + index / 8;
    const uint row = min(given, ROWS - 1);
    device pack<float, 4>* mine = (device pack<float, 4>*)cells_of + row * (KEY / 4);
    const float decay = decays[row / VALUE];
    float known = 0.0f, answer = 0.0f;
#pragma unroll
    for (uint j = 0; j < PACKS; j++) {
      const uint at = j * 8 + part;
      if (at >= KEY / 4) continue;
      if (base > 0) cells[h][j] = mine[at];
      for (int i = 0; i < 4; i++) {
        cells[h][j].values[i] *= decay;
        known = mad(cells[h][j].values[i], keys[at].values[i], known);
      }
    }
    known = key_scale * sum_of_eight(known);
    const float change = (flat[2 * KEY + row] - known) * betas[row / VALUE] * key_scale;
#pragma unroll
    for (uint j = 0; j < PACKS; j++) {
      const uint at = j * 8 + part;
      if (at >= KEY / 4) continue;
      for (int i = 0; i < 4; i++) {
        cells[h][j].values[i] = mad(keys[at].values[i], change, cells[h][j].values[i]);
        answer = mad(cells[h][j].values[i], queries[at].values[i], answer);
      }
      if (given < ROWS) mine[at] = cells[h][j];
    }
    answer = query_scale * sum_of_eight(answer);
    if (!NORMED) {
      if (part == 0 && given < ROWS) to[row] = T(answer);
    } else {
      float squares = answer * answer;
      squares += simd_shuffle_xor(squares, 8);
      squares += simd_shuffle_xor(squares, 16);
      if (part == 0 && given < ROWS) answers[row] = answer;
      if (lane == 0 && given < ROWS) parts[row / 4] = squares;
    }
  }
}
if (NORMED) {
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint s = 0; s < SHARE && s * STEP + index < ROWS; s++) {
    const uint row = s * STEP + index, first = row / VALUE * (VALUE / 4);
    float squares = 0.0f;
    for (uint i = 0; i < VALUE / 4; i++) squares += parts[first + i];
    const float scale = rsqrt(squares / float(VALUE) + norm_eps);
    const float open = float(opens[s]);
    to[row] = T(answers[row] * scale * float(factors[s]) * (open * sigmoid_of(open)));
  }
}
#endif
