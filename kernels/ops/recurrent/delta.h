// What gated-delta kernels share.
namespace metal {

// What is left of a state, and how much of the error is corrected.
inline float decay_of(float a, float dt_bias, float a_log) {
  const float step = a + dt_bias;
  const float soft = step > 20.0f ? step : max(step, 0.0f) + log1p_of(exp(-fabs(step)));
  return exp(-exp(a_log) * soft);
}
inline float opening_of(float x) { return 1.0f / (1.0f + exp(-x)); }

#if !HIPRT_CPU_LOOPS
inline float sum_of_eight(float v) {
  v += simd_shuffle_xor(v, 1);
  v += simd_shuffle_xor(v, 2);
  return v + simd_shuffle_xor(v, 4);
}
#endif

}  // namespace metal
