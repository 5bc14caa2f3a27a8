// Functions that the kernels of gated-delta layers share.
namespace metal {

// Returns what is left of a state: exp(-exp(a_log) * softplus(a + dt_bias)).
inline float decay_of(float a, float dt_bias, float a_log) {
  const float step = a + dt_bias;
  const float softplus = step > 20.0f ? step : max(step, 0.0f) + log1p_of(exp(-fabs(step)));
  return exp(-exp(a_log) * softplus);
}

inline float sigmoid_of(float x) { return 1.0f / (1.0f + exp(-x)); }

#if !HIPRT_CPU_LOOPS
// Returns the sum over eight neighbouring lanes, in each of them.
inline float sum_of_eight(float v) {
  return sum_across(sum_across(sum_across(v, 1), 2), 4);
}
#endif

}  // namespace metal
