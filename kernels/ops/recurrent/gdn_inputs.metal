// What the gated delta rule takes, from a product with columns q | k | v and b | a: convolution and silu of q, k and v, norms
// of q and k, and the gates. A threadgroup takes a head of queries, keys or values for RUN steps; only that of the first
// steps reads and writes its channels of the state.
threadgroup float mixed[RUN * KEY];  // of queries or keys
wait_for_inputs();
begin_next();
const uint first = thread_index_in_threadgroup;
const uint stride = threads_per_threadgroup.x;
const uint head = threadgroup_position_in_grid.x;
const uint batch = threadgroup_position_in_grid.y;
const uint begin = threadgroup_position_in_grid.z * RUN;
const uint there = min(uint(RUN), steps - begin);
const uint end = begin + there;
const uint values_from = 2 * key_heads * KEY;
const uint channels = values_from + value_heads * VALUE;
const bool is_value = head >= 2 * key_heads;
const bool is_query = head < key_heads;
const uint width = is_value ? VALUE : KEY;
const uint value_head = is_value ? head - 2 * key_heads : 0;
const size_t rows = size_t(batch) * steps;
const device T* from = proj + rows * columns;
for (uint i = first; i < width; i += stride) {
  const uint channel = (is_value ? values_from + value_head * VALUE : head * KEY) + i;
  device T* kept = conv + size_t(batch) * (TAPS - 1) * channels + channel;
  const device T* given = from + size_t(begin) * columns + channel;
  device T* to = v + ((rows + begin) * value_heads + value_head) * VALUE + i;
  float factors[TAPS], window[TAPS], newest[RUN];
#pragma unroll
  for (uint j = 0; j < TAPS; j++) factors[j] = float(weight[channel * TAPS + j]);
#pragma unroll
  for (uint r = 0; r < RUN; r++) {
    newest[r] = float(*given);
    given += r + 1 < there ? columns : 0;
  }
  const device T* before = begin ? from + size_t(begin + 1 - TAPS) * columns + channel : kept;
#pragma unroll
  for (uint j = 0; j + 1 < TAPS; j++) {
    window[j] = float(*before);
    before += begin ? columns : channels;
  }
  if (begin == 0) {
    // Step j of the new state is step j + steps of the old state followed by the new steps.
#pragma unroll 1
    for (uint j = 0; j + 1 < TAPS; j++) {
      const uint at = j + steps;
      kept[j * channels] = at + 1 < TAPS ? kept[at * channels] : from[size_t(at + 1 - TAPS) * columns + channel];
    }
  }
#pragma unroll
  for (uint r = 0; r < RUN; r++) {
    window[TAPS - 1] = newest[r];
    float sum = 0.0f;
#pragma unroll
    for (uint j = 0; j < TAPS; j++) sum = mad(factors[j], window[j], sum);
#pragma unroll
    for (uint j = 0; j + 1 < TAPS; j++) window[j] = window[j + 1];
    const float value = sum * sigmoid_of(sum);
    if (!is_value) {
      mixed[r * KEY + i] = value;
    } else if (r < there) {
      *to = T(value);
    }
    to += value_heads * VALUE;
  }
}
if (is_value) {
  for (uint t = begin + first; t < end; t += stride) {
    const device T* opening = from + size_t(t) * columns + gates + value_head;
    const size_t at = (rows + t) * value_heads + value_head;
    beta[at] = sigmoid_of(float(opening[0]));
    g[at] = decay_of(float(opening[value_heads]), float(dt_bias[value_head]), exp(a_log[value_head]));
  }
  return;
}
// A simdgroup takes a step.
#if HIPRT_CPU_LOOPS
const uint lane = 0, lanes = 1, own = 0, simdgroups = 1;
#else
const uint lane = thread_index_in_simdgroup, lanes = 32;
const uint own = simdgroup_index_in_threadgroup, simdgroups = simdgroups_per_threadgroup;
threadgroup_barrier(mem_flags::mem_threadgroup);
#endif
for (uint t = begin + own; t < end; t += simdgroups) {
  const threadgroup float* given = mixed + (t - begin) * KEY;
  float squares = 0.0f;
  for (uint i = lane; i < KEY; i += lanes) squares = mad(given[i], given[i], squares);
#if !HIPRT_CPU_LOOPS
  squares = simd_sum(squares);
#endif
  const float root = rsqrt(squares / float(KEY) + eps);
  const float scale = is_query ? root / float(KEY) : root * rsqrt(float(KEY));
  device T* to = (is_query ? q : k) + ((rows + t) * key_heads + (is_query ? head : head - key_heads)) * KEY;
  for (uint i = lane; i < KEY; i += lanes) to[i] = T(given[i] * scale);
}
