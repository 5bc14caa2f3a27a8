// A causal depthwise convolution over time: out[t] = silu(bias + sum over j of weight[j] * x[t - taps + 1 + j]), where
// what came before x is the state. The state becomes the last taps - 1 of both. One channel a thread.
constexpr uint MOST = 8;
uint i = thread_position_in_grid.x;
if (i >= size) return;
uint channel = i % channels;
uint batch = i / channels;
device T* kept = state + size_t(batch) * (taps - 1) * channels + channel;
const device T* from = x + size_t(batch) * steps * channels + channel;
device T* to = out + size_t(batch) * steps * channels + channel;
float window[MOST], factors[MOST];
for (uint j = 0; j < MOST; j++) {
  window[j] = j + 1 < taps ? float(kept[size_t(j) * channels]) : 0.0f;
  factors[j] = j < taps ? float(weight[channel * taps + j]) : 0.0f;
}
float shift = is_biased ? float(bias[channel]) : 0.0f;
for (uint t = 0; t < steps; t++) {
  float newest = float(from[size_t(t) * channels]);
  float sum = shift;
  for (uint j = 0; j < MOST; j++) {
    float value = j + 1 == taps ? newest : window[j];
    sum = j < taps ? mad(factors[j], value, sum) : sum;
  }
  for (uint j = 0; j + 1 < MOST; j++) window[j] = j + 2 < taps ? window[j + 1] : newest;
  to[size_t(t) * channels] = T(is_silu ? sum / (1.0f + exp(-sum)) : sum);
}
for (uint j = 0; j < MOST; j++) {
  if (j + 1 < taps) kept[size_t(j) * channels] = T(window[j]);
}
