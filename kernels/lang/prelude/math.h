// metal:: math on float32; 16-bit arguments convert. The CPU device has exp and log from cpu.h.
#ifndef INFINITY
#if HIPRT_TARGET_NVIDIA && !defined(__clang__)
#define INFINITY __int_as_float(0x7f800000)  // NVRTC lacks the builtins
#else
#define INFINITY __builtin_huge_valf()
#endif
#endif
#ifndef NAN
#if HIPRT_TARGET_NVIDIA && !defined(__clang__)
#define NAN __int_as_float(0x7fc00000)
#else
#define NAN __builtin_nanf("")
#endif
#endif

namespace metal {

#if HIPRT_TARGET_AMD
#define HIPRT_MATH(name) HIPRT_INLINE float name(float x) { return __builtin_##name##f(x); }
#else
#define HIPRT_MATH(name) HIPRT_INLINE float name(float x) { return ::name##f(x); }
#endif
#if !HIPRT_TARGET_CPU
HIPRT_MATH(exp)
HIPRT_MATH(log)
#endif
HIPRT_MATH(exp2)
HIPRT_MATH(log2)
HIPRT_MATH(log10)
HIPRT_MATH(sqrt)
HIPRT_MATH(sin)
HIPRT_MATH(cos)
HIPRT_MATH(fabs)
HIPRT_MATH(floor)
HIPRT_MATH(ceil)
HIPRT_MATH(rint)
HIPRT_MATH(round)
HIPRT_MATH(trunc)
#undef HIPRT_MATH

#if HIPRT_TARGET_NVIDIA
HIPRT_INLINE float fma(float a, float b, float c) { return ::fmaf(a, b, c); }
HIPRT_INLINE float fmin(float a, float b) { return ::fminf(a, b); }
HIPRT_INLINE float fmax(float a, float b) { return ::fmaxf(a, b); }
#else
HIPRT_INLINE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
HIPRT_INLINE float fmin(float a, float b) { return __builtin_fminf(a, b); }
HIPRT_INLINE float fmax(float a, float b) { return __builtin_fmaxf(a, b); }
#endif

namespace hiprt {
// a * b + c, which is fused where that is faster. Written-out products and sums are never fused.
#if HIPRT_TARGET_CPU
template <typename V>
HIPRT_INLINE V mad(V a, V b, V c) {
#ifdef __clang__
#pragma clang fp contract(on)
#endif
  return a * b + c;
}
#else
HIPRT_INLINE float mad(float a, float b, float c) { return fma(a, b, c); }
#endif
}  // namespace hiprt

HIPRT_INLINE float rsqrt(float x) {
#if HIPRT_TARGET_AMD
  return __builtin_amdgcn_rsqf(x);
#elif HIPRT_TARGET_NVIDIA
  return ::rsqrtf(x);
#else
  return 1.0f / sqrt(x);
#endif
}

HIPRT_INLINE float pow(float x, float y) {
#if HIPRT_TARGET_AMD
  return __builtin_powf(x, y);
#else
  return ::powf(x, y);
#endif
}

// Each type has a function of its own, so that operands of two types are resolved as in Metal.
#define HIPRT_ORDER(T)                                                    \
  HIPRT_INLINE T min(T a, T b) { return b < a ? b : a; }                  \
  HIPRT_INLINE T max(T a, T b) { return a < b ? b : a; }                  \
  HIPRT_INLINE T clamp(T x, T low, T high) { return min(max(x, low), high); }
HIPRT_ORDER(char) HIPRT_ORDER(signed char) HIPRT_ORDER(uchar) HIPRT_ORDER(short) HIPRT_ORDER(ushort) HIPRT_ORDER(int)
HIPRT_ORDER(uint) HIPRT_ORDER(long) HIPRT_ORDER(ulong) HIPRT_ORDER(half) HIPRT_ORDER(bfloat16_t) HIPRT_ORDER(float)
#undef HIPRT_ORDER
HIPRT_INLINE int abs(int x) { return x < 0 ? -x : x; }
HIPRT_INLINE float abs(float x) { return fabs(x); }
HIPRT_INLINE bool isnan(float x) { return x != x; }
HIPRT_INLINE bool isinf(float x) { return fabs(x) == INFINITY; }
HIPRT_INLINE bool isfinite(float x) { return fabs(x) < INFINITY; }
template <typename T>
HIPRT_INLINE T select(T no, T yes, bool condition) { return condition ? yes : no; }
HIPRT_INLINE uint mulhi(uint a, uint b) { return uint((ulong(a) * b) >> 32); }

}  // namespace metal
