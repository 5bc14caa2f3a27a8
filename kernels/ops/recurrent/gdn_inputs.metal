// What the gated delta rule takes, from the product q | k | v | b | a: convolution and silu of q, k and v, norms of q and k,
// and the gates. A threadgroup takes a head of queries, keys or values: nothing else reads or writes its channels of the
// state.
threadgroup float parts[32];
threadgroup float mixed[KEY];  // of queries or keys
const uint step = threads_per_threadgroup.x;
const uint first = thread_index_in_threadgroup;
const uint head = threadgroup_position_in_grid.x;
const uint batch = threadgroup_position_in_grid.y;
const uint values_from = 2 * key_heads * KEY;
const uint channels = values_from + value_heads * VALUE;
const bool is_value = head >= 2 * key_heads;
const uint width = is_value ? VALUE : KEY;
const uint value_head = is_value ? head - 2 * key_heads : 0;
const uint begin = is_value ? values_from + value_head * VALUE : head * KEY;
const device T* from = proj + size_t(batch) * columns;
device T* kept = conv + size_t(batch) * (TAPS - 1) * channels;
float squares = 0.0f;
for (uint i = first; i < width; i += step) {
  const uint channel = begin + i;
  T window[TAPS];
  for (uint j = 0; j + 1 < TAPS; j++) window[j] = kept[j * channels + channel];
  window[TAPS - 1] = from[channel];
  float sum = 0.0f;
  for (uint j = 0; j < TAPS; j++) sum = mad(float(weight[channel * TAPS + j]), float(window[j]), sum);
  for (uint j = 0; j + 1 < TAPS; j++) kept[j * channels + channel] = window[j + 1];
  const float value = sum * sigmoid_of(sum);
  if (is_value) {
    v[size_t(batch) * value_heads * VALUE + value_head * VALUE + i] = T(value);
  } else {
    mixed[i] = value;
    squares = mad(value, value, squares);
  }
}
if (is_value) {
  if (first == 0) {
    const uint at = batch * value_heads + value_head;
    beta[at] = sigmoid_of(float(from[channels + value_head]));
    g[at] = decay_of(float(from[channels + value_heads + value_head]), float(dt_bias[value_head]), a_log[value_head]);
  }
  return;
}
squares = sum_of_row(squares, parts, thread_index_in_simdgroup, simdgroup_index_in_threadgroup, simdgroups_per_threadgroup);
const float root = rsqrt(squares / float(KEY) + eps);
const bool is_query = head < key_heads;
const float scale = is_query ? root / float(KEY) : root * rsqrt(float(KEY));
device T* to = (is_query ? q : k) + size_t(batch) * key_heads * KEY + (is_query ? head : head - key_heads) * KEY;
for (uint i = first; i < KEY; i += step) to[i] = T(mixed[i] * scale);
