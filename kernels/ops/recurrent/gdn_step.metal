// One step of a gated-delta layer after its input product, whose columns are q | k | v | z | b | a: convolution and silu of
// q, k and v, norms of q and k, gates, the gated delta rule (gated_delta.metal), and with NORMED the norm of each head's
// answer, multiplied by silu(z). A threadgroup takes HEADS of the RATIO heads of values that read a head of keys. Where that
// is not all of them, each of these threadgroups finds q and k, and counts itself when it has read their channels of the
// convolution's state: the one that comes last, behind which nobody reads them, writes them.
constexpr uint SHARERS = RATIO / HEADS;
constexpr uint ROWS = HEADS * VALUE;
constexpr uint CHANNELS = 2 * KEY + ROWS;
const uint first_head = threadgroup_position_in_grid.x * HEADS;  // of values
const uint key_head = threadgroup_position_in_grid.x / SHARERS;
const uint batch = threadgroup_position_in_grid.y;
const uint values_from = 2 * key_heads * KEY;           // columns
const uint all_rows = key_heads * RATIO * VALUE;
const uint channels = values_from + all_rows;
const uint gates_from = channels + all_rows;
const uint columns = gates_from + 2 * key_heads * RATIO;
const device T* from = proj + size_t(batch) * columns;
device T* kept = conv + size_t(batch) * (TAPS - 1) * channels;
device float* cells_of = state + (size_t(batch) * all_rows + first_head * VALUE) * KEY;
device T* to = out + size_t(batch) * all_rows + first_head * VALUE;
const step_channels<KEY> own(key_head, key_heads, first_head * VALUE);
#if HIPRT_CPU_LOOPS
float mixed[CHANNELS], betas[HEADS], decays[HEADS];
wait_for_inputs();
begin_next();
for (uint c = 0; c < CHANNELS; c++) {
  const uint channel = own.at(c);
  T window[TAPS];
  for (uint j = 0; j + 1 < TAPS; j++) window[j] = kept[j * channels + channel];
  window[TAPS - 1] = from[channel];
  float sum = 0.0f;
  for (uint j = 0; j < TAPS; j++) sum = mad(float(weight[channel * TAPS + j]), float(window[j]), sum);
  for (uint j = 0; j + 1 < TAPS; j++) kept[j * channels + channel] = window[j + 1];
  mixed[c] = sum * sigmoid_of(sum);
}
for (uint r = 0; r < HEADS; r++) {
  const uint head = first_head + r;
  betas[r] = sigmoid_of(float(from[gates_from + head]));
  decays[r] = decay_of(float(from[gates_from + key_heads * RATIO + head]), float(dt_bias[head]), exp(a_log[head]));
}
f32x8 query_squares = splat(0.0f), key_squares = splat(0.0f);
for (uint c = 0; c < KEY; c += 8) {
  query_squares = mad(load8(mixed + c), load8(mixed + c), query_squares);
  key_squares = mad(load8(mixed + KEY + c), load8(mixed + KEY + c), key_squares);
}
const float query_scale = rsqrt(sum8(query_squares) / float(KEY) + eps) / float(KEY);
const float key_scale = rsqrt(sum8(key_squares) / float(KEY) + eps) * rsqrt(float(KEY));
float answers[VALUE];
for (uint r = 0; r < HEADS; r++) {
  const uint head = first_head + r;
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
begin_next();
// Eight lanes share a row of the state, four of its columns each at a time.
constexpr uint STEP = SIMDGROUPS * 32;
constexpr uint PACKS = (KEY + 31) / 32;
constexpr uint PASS = SIMDGROUPS * 4;  // rows that are worked on together
constexpr uint PASSES = (ROWS + PASS - 1) / PASS;
constexpr uint MOST = SIMDGROUPS < 8 ? 32 : 16;  // packs of the state that a thread holds at a time
constexpr uint HELD = PASSES * PACKS <= MOST ? PASSES : MOST / PACKS;
constexpr bool IS_WHOLE = ROWS % (HELD * PASS) == 0;  // no pass has too few rows
// A thread takes every STEP-th channel. It holds the windows of the first ones; those of q and k are among them.
constexpr uint ROUNDS = (CHANNELS + STEP - 1) / STEP;
constexpr uint SHARED = (2 * KEY + STEP - 1) / STEP;
constexpr uint MOST_EARLY = SHARED > 4 ? SHARED : 4;
constexpr uint EARLY = ROUNDS < MOST_EARLY ? ROUNDS : MOST_EARLY;
threadgroup pack<float, 4> mixed[CHANNELS / 4];
threadgroup float* flat = (threadgroup float*)mixed;
threadgroup float betas[HEADS], decays[HEADS];
threadgroup uint is_last;
const uint lane = thread_index_in_simdgroup;
const uint index = simdgroup_index_in_threadgroup * 32 + lane;
const uint part = lane % 8;
const uint turned = STEP - 1 - index;  // the last threads, which have the fewest channels, take the gates and the norm
pack<float, 4> cells[HELD][PACKS];
#pragma unroll
for (uint h = 0; h < HELD; h++) {
  const uint row = IS_WHOLE ? h * PASS + index / 8 : min(h * PASS + index / 8, ROWS - 1);
#pragma unroll
  for (uint j = 0; j < PACKS; j++) {
    cells[h][j] = ((const device pack<float, 4>*)cells_of)[row * (KEY / 4) + min(j * 8 + part, uint(KEY / 4 - 1))];
  }
}
// As the state, these are what the last step left, so that behind the inputs memory is waited for once.
T windows[EARLY][TAPS], factors[EARLY][TAPS];
#pragma unroll
for (uint e = 0; e < EARLY; e++) {
  if (e * STEP + index >= CHANNELS) continue;
  const uint channel = own.at(e * STEP + index);
  for (uint j = 0; j + 1 < TAPS; j++) windows[e][j] = load_value<T>(kept + j * channels + channel);
  for (uint j = 0; j < TAPS; j++) factors[e][j] = load_value<T>(weight + channel * TAPS + j);
}
constexpr uint SHARE = (ROWS + STEP - 1) / STEP;
T scales[SHARE];
#pragma unroll
for (uint s = 0; NORMED && s < SHARE; s++) scales[s] = load_value<T>(norm + min(s * STEP + turned, ROWS - 1) % VALUE);
const uint head = first_head + min(turned, uint(HEADS - 1));
const float rate = exp(load_value<float>(a_log + head));
const T shift = load_value<T>(dt_bias + head);
wait_for_inputs();
#pragma unroll
for (uint e = 0; e < EARLY; e++) windows[e][TAPS - 1] = load_value<T>(from + own.at(min(e * STEP + index, CHANNELS - 1)));
const T gates[2] = {load_value<T>(from + gates_from + head), load_value<T>(from + gates_from + key_heads * RATIO + head)};
float opens[SHARE];
#pragma unroll
for (uint s = 0; NORMED && s < SHARE; s++) {
  opens[s] = float(load_value<T>(from + channels + first_head * VALUE + min(s * STEP + turned, ROWS - 1)));
}
#pragma unroll 1
for (uint base = 0; base < ROUNDS; base += EARLY) {
#pragma unroll
  for (uint e = 0; e < EARLY; e++) {
    const uint c = (base + e) * STEP + index;
    if (c >= CHANNELS) continue;
    const uint channel = own.at(c);
    T window[TAPS];
    float sum = 0.0f;
    for (uint j = 0; j < TAPS; j++) {
      window[j] = windows[e][j];
      T factor = factors[e][j];
      if (base > 0) {
        window[j] = j + 1 < TAPS ? T(kept[j * channels + channel]) : T(from[channel]);
        factor = weight[channel * TAPS + j];
      }
      sum = mad(float(factor), float(window[j]), sum);
    }
    flat[c] = sum * sigmoid_of(sum);
    if (SHARERS > 1 && c < 2 * KEY) continue;
    for (uint j = 0; j + 1 < TAPS; j++) kept[j * channels + channel] = window[j + 1];
  }
}
if (turned < HEADS) {
  betas[turned] = sigmoid_of(float(gates[0]));
  decays[turned] = decay_of(float(gates[1]), float(shift), rate);
}
#pragma unroll
for (uint s = 0; NORMED && s < SHARE; s++) {
  if (s * STEP + turned < ROWS) opens[s] *= sigmoid_of(opens[s]);
}
threadgroup float answers[ROWS];
threadgroup float parts[PASSES * PASS / 4];  // squares of four rows' answers
threadgroup_barrier(mem_flags::mem_threadgroup);
// GPUs issue in order, so that what was computed with has been read; and the last threadgroup writes what each of them has.
// They need no fence, which would cost this thread the way to memory and back: the count is on its way while the state is
// worked on.
#if HIPRT_TARGET_CPU
if (SHARERS > 1 && index == 0) device_fence();
#endif
device atomic_uint* const counter = (device atomic_uint*)(arrived + batch * key_heads + key_head);
uint before = 0;
if (SHARERS > 1 && index == 0) before = atomic_fetch_add_explicit(counter, 1u, memory_order_relaxed);
const threadgroup pack<float, 4>* queries = mixed;
const threadgroup pack<float, 4>* keys = mixed + KEY / 4;
chained_sum query_squares, key_squares;
#pragma unroll
for (uint j = 0; j < PACKS; j++) {
  for (int i = 0; i < 4 && j * 8 + part < KEY / 4; i++) {
    const float query = queries[j * 8 + part].values[i], key = keys[j * 8 + part].values[i];
    query_squares.add(i, query, query);
    key_squares.add(i, key, key);
  }
}
const float query_scale = rsqrt(sum_of_eight(query_squares.total()) / float(KEY) + eps) / float(KEY);
const float key_scale = rsqrt(sum_of_eight(key_squares.total()) / float(KEY) + eps) * rsqrt(float(KEY));
#pragma unroll 1
for (uint base = 0; base < PASSES; base += HELD) {
#pragma unroll
  for (uint h = 0; h < HELD; h++) {
    const uint given = (base + h) * PASS + index / 8;
    const bool is_row = IS_WHOLE || given < ROWS;
    const uint row = is_row ? given : ROWS - 1, head_of_row = HEADS == 1 ? 0 : row / VALUE;
    device pack<float, 4>* mine = (device pack<float, 4>*)cells_of + row * (KEY / 4);
    const float decay = decays[head_of_row];
    chained_sum known_sum, answer_sum;
#pragma unroll
    for (uint j = 0; j < PACKS; j++) {
      const uint at = j * 8 + part;
      if (at >= KEY / 4) continue;
      if (base > 0 && is_row) cells[h][j] = mine[at];
      for (int i = 0; i < 4; i++) {
        cells[h][j].values[i] *= decay;
        known_sum.add(i, cells[h][j].values[i], keys[at].values[i]);
      }
    }
    const float known = key_scale * sum_of_eight(known_sum.total());
    const float change = (flat[2 * KEY + row] - known) * betas[head_of_row] * key_scale;
#pragma unroll
    for (uint j = 0; j < PACKS; j++) {
      const uint at = j * 8 + part;
      if (at >= KEY / 4) continue;
      for (int i = 0; i < 4; i++) {
        cells[h][j].values[i] = mad(keys[at].values[i], change, cells[h][j].values[i]);
        answer_sum.add(i, cells[h][j].values[i], queries[at].values[i]);
      }
      if (is_row) mine[at] = cells[h][j];
    }
    const float answer = query_scale * sum_of_eight(answer_sum.total());
    if (!NORMED) {
      if (part == 0 && is_row) to[row] = T(answer);
    } else {
      float squares = answer * answer;
      squares += simd_shuffle_xor(squares, 8);
      squares += simd_shuffle_xor(squares, 16);
      if (part == 0 && is_row) answers[row] = answer;
      if (lane == 0 && is_row) parts[row / 4] = squares;
    }
  }
}
if (SHARERS > 1 && index == 0) is_last = before == SHARERS - 1;
if (NORMED || SHARERS > 1) threadgroup_barrier(mem_flags::mem_threadgroup);
if (SHARERS > 1 && is_last != 0) {
#if HIPRT_TARGET_CPU
  device_fence();
#endif
#pragma unroll
  for (uint e = 0; e < SHARED; e++) {
    const uint c = e * STEP + index;
    if (c >= 2 * KEY) continue;
    for (uint j = 0; j + 1 < TAPS; j++) kept[j * channels + own.at(c)] = windows[e][j + 1];
  }
  if (index == 0) atomic_exchange_explicit(counter, 0u, memory_order_relaxed);
}
if (NORMED) {
#pragma unroll
  for (uint s = 0; s < SHARE; s++) {
    const uint row = s * STEP + turned, first = HEADS == 1 ? 0 : row / VALUE * (VALUE / 4);
    if (row >= ROWS) continue;
    float squares = 0.0f;
    for (uint i = 0; i < VALUE / 4; i++) squares += parts[first + i];
    const float scale = rsqrt(squares / float(VALUE) + norm_eps);
    to[row] = T(answers[row] * scale * float(scales[s]) * opens[s]);
  }
}
#endif
