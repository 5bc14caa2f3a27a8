// What becomes of the sum of a row.
namespace metal {

// What the norm multiplies a vector's sums with, by the squares that simdgroups have added up.
HIPRT_INLINE float norm_of(const threadgroup float* squares, uint lane, float eps) {
  const float square = sum_of_lanes(lane < MEMBERS ? squares[lane] : 0.0f);
  return rsqrt(square / float(WIDTH) + eps);
}

// The result of a sum and of what it gates, before a share and a residual.
HIPRT_INLINE float result_of(float sum, float gated, float norm) {
  float value = sum * norm;
  if (GATED) value = value / (1.0f + exp(-value)) * (gated * norm);
  return value;
}

}  // namespace metal
