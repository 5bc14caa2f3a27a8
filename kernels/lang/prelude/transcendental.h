// metal:: trigonometric, inverse and hyperbolic functions of float32.
namespace metal {

#if HIPRT_TARGET_AMD
// Without device libraries only the hardware's own functions exist, and the others are derived from them.
HIPRT_INLINE float tan(float x) { return sin(x) / cos(x); }
HIPRT_INLINE float atan(float x) {
  float size = fabs(x), inverse = size > 1.0f ? 1.0f / size : size;
  // Two halvings of the angle bring the argument below 0.2.
  float z = inverse / (1.0f + sqrt(1.0f + inverse * inverse));
  z = z / (1.0f + sqrt(1.0f + z * z));
  float s = z * z;
  float angle = 4.0f * z * (1.0f - s * (0.333333333f - s * (0.2f - s * (0.142857143f - s * (0.111111111f - s * 0.0909090909f)))));
  angle = size > 1.0f ? 1.57079632679f - angle : angle;
  return __builtin_copysignf(angle, x);
}
HIPRT_INLINE float atan2(float y, float x) {
  float angle = atan(fabs(y) == fabs(x) ? 1.0f : fabs(y) / fabs(x));
  angle = x == 0.0f && y == 0.0f ? 0.0f : angle;
  angle = __builtin_copysignf(1.0f, x) < 0.0f ? 3.14159265359f - angle : angle;
  return __builtin_copysignf(angle, y);
}
HIPRT_INLINE float asin(float x) { return atan2(x, sqrt((1.0f - x) * (1.0f + x))); }
HIPRT_INLINE float acos(float x) { return atan2(sqrt((1.0f - x) * (1.0f + x)), x); }
HIPRT_INLINE float log1p(float x) {
  float sum = 1.0f + x, rest = x - (sum - 1.0f);
  if (sum == 1.0f) return x;
  return sum > 0.0f && sum < INFINITY ? log(sum) + rest / sum : log(sum);
}
HIPRT_INLINE float sinh(float x) {
  float size = fabs(x), s = x * x;
  float small = x * (1.0f + s * (0.166666667f + s * (0.00833333333f + s * 0.000198412698f)));
  float root = exp(0.5f * size), half_exp = 0.5f * root * root;
  return size < 0.5f ? small : __builtin_copysignf(half_exp - 0.25f / half_exp, x);
}
HIPRT_INLINE float cosh(float x) {
  float root = exp(0.5f * fabs(x)), half_exp = 0.5f * root * root;
  return half_exp + 0.25f / half_exp;
}
HIPRT_INLINE float tanh(float x) {
  float size = fabs(x);
  float far = 1.0f - 2.0f / (exp(2.0f * size) + 1.0f);
  return size < 0.5f ? sinh(x) / cosh(x) : __builtin_copysignf(far, x);
}
HIPRT_INLINE float asinh(float x) {
  float size = fabs(x), s = size * size;
  return __builtin_copysignf(size > 1e18f ? log(size) + 0.693147181f : log1p(size + s / (1.0f + sqrt(s + 1.0f))), x);
}
HIPRT_INLINE float acosh(float x) {
  float t = x - 1.0f;
  return x > 1e18f ? log(x) + 0.693147181f : log1p(t + sqrt(t * (x + 1.0f)));
}
HIPRT_INLINE float atanh(float x) {
  float size = fabs(x);
  return __builtin_copysignf(0.5f * log1p(2.0f * size / (1.0f - size)), x);
}
#else
#define HIPRT_MATH(name) HIPRT_INLINE float name(float x) { return ::name##f(x); }
HIPRT_MATH(tan) HIPRT_MATH(asin) HIPRT_MATH(acos) HIPRT_MATH(atan) HIPRT_MATH(sinh) HIPRT_MATH(cosh) HIPRT_MATH(tanh)
HIPRT_MATH(asinh) HIPRT_MATH(acosh) HIPRT_MATH(atanh) HIPRT_MATH(log1p)
#undef HIPRT_MATH
HIPRT_INLINE float atan2(float y, float x) { return ::atan2f(y, x); }
#endif

}  // namespace metal
