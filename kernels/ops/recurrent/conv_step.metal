// A causal depthwise convolution over time: out[t] = silu(bias + sum over j of weight[j] * x[t - taps + 1 + j]), where
// what came before x is the state. The last taps - 1 steps of both become the new state. A thread takes a channel for STEPS
// steps; only the thread of the first steps reads and writes the state.
constexpr uint MOST = 8;
uint i = thread_position_in_grid.x;
if (i >= size) return;
uint channel = i % channels;
uint batch = i / channels;
const uint first = threadgroup_position_in_grid.y * STEPS;
const uint end = min(steps, first + STEPS);
const uint past = taps - 1;
device T* kept = state + size_t(batch) * past * channels + channel;
const device T* from = x + size_t(batch) * steps * channels + channel;
device T* to = out + size_t(batch) * steps * channels + channel;
float window[MOST], factors[MOST];
for (uint j = 0; j < MOST; j++) {
  window[j] = j >= past ? 0.0f : float(first ? from[size_t(first - past + j) * channels] : kept[size_t(j) * channels]);
  factors[j] = j < taps ? float(weight[channel * taps + j]) : 0.0f;
}
float shift = is_biased ? float(bias[channel]) : 0.0f;
if (first == 0) {
  // Step t of the new state is step t + steps of the old state, which the window holds, followed by x.
  for (uint j = 0; j + 1 < MOST; j++) {
    if (j >= past) continue;
    float value = 0.0f;
    for (uint o = 0; o + 1 < MOST; o++) value = o == j + steps ? window[o] : value;
    kept[size_t(j) * channels] = T(j + steps < past ? value : float(from[size_t(j + steps - past) * channels]));
  }
}
for (uint t = first; t < end; t++) {
  float newest = float(from[size_t(t) * channels]);
  float sum = shift;
  for (uint j = 0; j < MOST; j++) {
    float value = j + 1 == taps ? newest : window[j];
    sum = j < taps ? mad(factors[j], value, sum) : sum;
  }
  for (uint j = 0; j + 1 < MOST; j++) window[j] = j + 2 < taps ? window[j + 1] : newest;
  to[size_t(t) * channels] = T(is_silu ? sum / (1.0f + exp(-sum)) : sum);
}
