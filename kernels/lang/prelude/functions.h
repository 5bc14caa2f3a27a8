// metal:: functions that the project's own kernels do not use: the rest of float32, and all functions of vectors and of 16-bit
// numbers, which are computed in float32 and rounded once.
namespace metal {

#if HIPRT_TARGET_AMD
HIPRT_INLINE float exp10(float x) { return __builtin_exp10f(x); }
HIPRT_INLINE float fmod(float x, float y) { return __builtin_fmodf(x, y); }
HIPRT_INLINE float copysign(float x, float y) { return __builtin_copysignf(x, y); }
HIPRT_INLINE float ldexp(float x, int e) { return __builtin_ldexpf(x, e); }
HIPRT_INLINE float frexp(float x, int& e) { return __builtin_frexpf(x, &e); }
#else
HIPRT_INLINE float exp10(float x) { return ::exp10f(x); }
HIPRT_INLINE float fmod(float x, float y) { return ::fmodf(x, y); }
HIPRT_INLINE float copysign(float x, float y) { return ::copysignf(x, y); }
HIPRT_INLINE float ldexp(float x, int e) { return ::ldexpf(x, e); }
HIPRT_INLINE float frexp(float x, int& e) { return ::frexpf(x, &e); }
#endif

HIPRT_INLINE float powr(float x, float y) { return pow(x, y); }
HIPRT_INLINE float fdim(float x, float y) { return x > y ? x - y : 0.0f; }
HIPRT_INLINE float fract(float x) { return fmin(x - floor(x), 0x1.fffffep-1f); }
HIPRT_INLINE float sign(float x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : isnan(x) ? 0.0f : x; }
HIPRT_INLINE float saturate(float x) { return clamp(x, 0.0f, 1.0f); }
HIPRT_INLINE float step(float edge, float x) { return x < edge ? 0.0f : 1.0f; }
HIPRT_INLINE float mix(float x, float y, float a) { return x + (y - x) * a; }
HIPRT_INLINE float smoothstep(float low, float high, float x) {
  float t = saturate((x - low) / (high - low));
  return t * t * (3.0f - 2.0f * t);
}
// Arguments in half turns are reduced exactly.
HIPRT_INLINE float sinpi(float x) {
  float rest = x - 2.0f * rint(0.5f * x);
  return fabs(rest) > 0.5f ? copysign(sin((1.0f - fabs(rest)) * 3.14159265359f), rest) : sin(rest * 3.14159265359f);
}
HIPRT_INLINE float cospi(float x) {
  float rest = fabs(x - 2.0f * rint(0.5f * x));
  return rest < 0.25f ? cos(rest * 3.14159265359f) : sinpi(0.5f - rest);
}
HIPRT_INLINE float tanpi(float x) { return sinpi(x) / cospi(x); }
HIPRT_INLINE float modf(float x, float& whole) {
  whole = trunc(x);
  return isinf(x) ? copysign(0.0f, x) : copysign(x - whole, x);
}
HIPRT_INLINE float sincos(float x, float& cosine) {
  cosine = cos(x);
  return sin(x);
}
HIPRT_INLINE int ilogb(float x) {
  int e;
  frexp(x, e);
  return e - 1;
}
HIPRT_INLINE float nextafter(float x, float y) {
  int bits = as_type<int>(x);
  if (isnan(x) || isnan(y)) return x + y;
  if (x == y) return y;
  if (x == 0.0f) return copysign(as_type<float>(1), y);
  return as_type<float>((x < y) == (bits >= 0) ? bits + 1 : bits - 1);
}
HIPRT_INLINE float divide(float x, float y) { return x / y; }
HIPRT_INLINE float fmin3(float a, float b, float c) { return fmin(a, fmin(b, c)); }
HIPRT_INLINE float fmax3(float a, float b, float c) { return fmax(a, fmax(b, c)); }
HIPRT_INLINE float fmedian3(float a, float b, float c) { return fmax(fmin(a, b), fmin(fmax(a, b), c)); }
HIPRT_INLINE bool signbit(float x) { return as_type<int>(x) < 0; }
HIPRT_INLINE bool isnormal(float x) { return fabs(x) >= 0x1p-126f && fabs(x) < INFINITY; }
HIPRT_INLINE bool isordered(float x, float y) { return !isnan(x) && !isnan(y); }
HIPRT_INLINE bool isunordered(float x, float y) { return isnan(x) || isnan(y); }
HIPRT_INLINE float select(float no, float yes, bool condition) { return condition ? yes : no; }

#define HIPRT_ONE(X) \
  X(exp) X(exp2) X(exp10) X(log) X(log2) X(log10) X(log1p) X(sqrt) X(rsqrt) X(sin) X(cos) X(tan) \
  X(sinpi) X(cospi) X(tanpi) X(asin) X(acos) X(atan) X(sinh) X(cosh) X(tanh) X(asinh) X(acosh) X(atanh) \
  X(floor) X(ceil) X(rint) X(round) X(trunc) X(fabs) X(abs) X(fract) X(sign) X(saturate)
#define HIPRT_TWO(X) \
  X(pow) X(powr) X(atan2) X(fmod) X(fmin) X(fmax) X(fdim) X(copysign) X(step)

#define HIPRT_NARROW_ONE(name) HIPRT_INLINE T name(T x) { return T(name(float(x))); }
#define HIPRT_NARROW_TWO(name) HIPRT_INLINE T name(T x, T y) { return T(name(float(x), float(y))); }
#define HIPRT_NARROW                                                                            \
  HIPRT_ONE(HIPRT_NARROW_ONE)                                                                   \
  HIPRT_TWO(HIPRT_NARROW_TWO)                                                                   \
  HIPRT_INLINE T fma(T a, T b, T c) { return T(fma(float(a), float(b), float(c))); }            \
  HIPRT_INLINE T mix(T x, T y, T a) { return T(mix(float(x), float(y), float(a))); }            \
  HIPRT_INLINE T smoothstep(T l, T h, T x) { return T(smoothstep(float(l), float(h), float(x))); } \
  HIPRT_INLINE bool isnan(T x) { return isnan(float(x)); }                                      \
  HIPRT_INLINE bool isinf(T x) { return isinf(float(x)); }                                      \
  HIPRT_INLINE bool isfinite(T x) { return isfinite(float(x)); }
#define T half
HIPRT_NARROW
#undef T
#define T bfloat16_t
HIPRT_NARROW
#undef T

// The functions of each element come first, then the geometry of vectors.
#define HIPRT_VECTOR_ONE(name)                                                                  \
  HIPRT_INLINE V name(V x) {                                                                    \
    for (int i = 0; i < V::WIDTH; i++) x.at[i] = name(x.at[i]);                                 \
    return x;                                                                                   \
  }
#define HIPRT_VECTOR_TWO(name)                                                                  \
  HIPRT_INLINE V name(V x, V y) {                                                               \
    for (int i = 0; i < V::WIDTH; i++) x.at[i] = name(x.at[i], y.at[i]);                        \
    return x;                                                                                   \
  }
#define HIPRT_VECTOR_THREE(name)                                                                \
  HIPRT_INLINE V name(V x, V y, V z) {                                                          \
    for (int i = 0; i < V::WIDTH; i++) x.at[i] = name(x.at[i], y.at[i], z.at[i]);               \
    return x;                                                                                   \
  }
#define HIPRT_VECTOR_TEST(name)                                                                 \
  HIPRT_INLINE vec<bool, V::WIDTH> name(V x) {                                                  \
    vec<bool, V::WIDTH> result;                                                                 \
    for (int i = 0; i < V::WIDTH; i++) result.at[i] = name(x.at[i]);                            \
    return result;                                                                              \
  }
#define HIPRT_VECTOR_SELECT                                                                     \
  HIPRT_INLINE V select(V no, V yes, vec<bool, V::WIDTH> condition) {                           \
    for (int i = 0; i < V::WIDTH; i++) no.at[i] = condition.at[i] ? yes.at[i] : no.at[i];       \
    return no;                                                                                  \
  }
#define HIPRT_VECTOR_ORDER                                                                      \
  HIPRT_VECTOR_TWO(min) HIPRT_VECTOR_TWO(max) HIPRT_VECTOR_THREE(clamp) HIPRT_VECTOR_SELECT     \
  HIPRT_VECTOR_THREE(min3) HIPRT_VECTOR_THREE(max3) HIPRT_VECTOR_THREE(median3)
#define HIPRT_VECTOR_MATH                                                                       \
  HIPRT_ONE(HIPRT_VECTOR_ONE)                                                                   \
  HIPRT_TWO(HIPRT_VECTOR_TWO)                                                                   \
  HIPRT_VECTOR_THREE(fma) HIPRT_VECTOR_THREE(mix) HIPRT_VECTOR_THREE(smoothstep)                \
  HIPRT_VECTOR_TEST(isnan) HIPRT_VECTOR_TEST(isinf) HIPRT_VECTOR_TEST(isfinite)                 \
  HIPRT_INLINE V::element dot(V x, V y) {                                                       \
    V::element sum = x.at[0] * y.at[0];                                                         \
    for (int i = 1; i < V::WIDTH; i++) sum += x.at[i] * y.at[i];                                \
    return sum;                                                                                 \
  }                                                                                             \
  HIPRT_INLINE V::element length_squared(V x) { return dot(x, x); }                             \
  HIPRT_INLINE V::element length(V x) { return sqrt(dot(x, x)); }                               \
  HIPRT_INLINE V::element distance_squared(V x, V y) { return length_squared(x - y); }          \
  HIPRT_INLINE V::element distance(V x, V y) { return length(x - y); }                          \
  HIPRT_INLINE V normalize(V x) { return x * V(rsqrt(dot(x, x))); }                             \
  HIPRT_INLINE V reflect(V i, V n) { return i - n * V(dot(n, i) * V::element(2)); }              \
  HIPRT_INLINE V refract(V i, V n, V::element eta) {                                            \
    float along = float(dot(n, i)), k = 1.0f - float(eta) * float(eta) * (1.0f - along * along); \
    if (k < 0.0f) return V(V::element(0));                                                      \
    return i * V(eta) - n * V(V::element(float(eta) * along + sqrt(k)));                        \
  }                                                                                             \
  HIPRT_INLINE V faceforward(V n, V i, V reference) {                                           \
    return n * V(V::element(dot(reference, i) < V::element(0) ? 1 : -1));                       \
  }
#define V float2
HIPRT_VECTOR_ORDER HIPRT_VECTOR_MATH
#undef V
#define V float3
HIPRT_VECTOR_ORDER HIPRT_VECTOR_MATH
#undef V
#define V float4
HIPRT_VECTOR_ORDER HIPRT_VECTOR_MATH
#undef V
#define V half2
HIPRT_VECTOR_ORDER HIPRT_VECTOR_MATH
#undef V
#define V half3
HIPRT_VECTOR_ORDER HIPRT_VECTOR_MATH
#undef V
#define V half4
HIPRT_VECTOR_ORDER HIPRT_VECTOR_MATH
#undef V
HIPRT_INLINE float3 cross(float3 a, float3 b) {
  return float3(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x);
}
#undef HIPRT_VECTOR_MATH
#undef HIPRT_VECTOR_ORDER
#undef HIPRT_NARROW

#define HIPRT_USING(name) using metal::name;
#define HIPRT_MORE(X) X(fma) X(mix) X(smoothstep) X(ldexp) X(frexp) X(modf) X(sincos) X(divide) X(fmin3) X(fmax3) X(normalize) X(length) X(dot) X(distance)
namespace precise {
HIPRT_ONE(HIPRT_USING) HIPRT_TWO(HIPRT_USING) HIPRT_MORE(HIPRT_USING)
}
namespace fast {
HIPRT_ONE(HIPRT_USING) HIPRT_TWO(HIPRT_USING) HIPRT_MORE(HIPRT_USING)
}
#undef HIPRT_MORE
#undef HIPRT_USING
#undef HIPRT_TWO
#undef HIPRT_ONE

}  // namespace metal
