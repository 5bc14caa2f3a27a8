// __hip_bfloat16 and __hip_bfloat162 with HIP's intrinsics: the upper half of a float, rounded to nearest even.
#pragma once
#pragma GCC system_header

#define __hiprt_bf __hiprt_inline

__hiprt_bf unsigned short __hiprt_bf16_bits(float x) {
  const unsigned bits = __float_as_uint(x);
  return (unsigned short)(x == x ? (bits + 0x7fff + (bits >> 16 & 1)) >> 16 : bits >> 16 | 0x40);
}
__hiprt_bf float __hiprt_bf16_value(unsigned short bits) { return __uint_as_float(unsigned(bits) << 16); }

struct __hip_bfloat16_raw {
  unsigned short x;
};
struct __hip_bfloat162_raw {
  unsigned short x, y;
};

struct __hip_bfloat16 {
  unsigned short __x;
  __hip_bfloat16() = default;
  __hiprt_bf __hip_bfloat16(const __hip_bfloat16_raw &raw) : __x(raw.x) {}
  __hiprt_bf __hip_bfloat16(float v) : __x(__hiprt_bf16_bits(v)) {}
  __hiprt_bf __hip_bfloat16(double v) : __x(__hiprt_bf16_bits(float(v))) {}
  template <class T, class = typename __hiprt_if<__hiprt_is_whole<T>::value, T>::type>
  __hiprt_bf __hip_bfloat16(T v) : __x(__hiprt_bf16_bits(float(v))) {}
  __hiprt_bf operator float() const { return __hiprt_bf16_value(__x); }
  __hiprt_bf operator __hip_bfloat16_raw() const { return {__x}; }
};

struct alignas(4) __hip_bfloat162 {
  __hip_bfloat16 x, y;
  __hip_bfloat162() = default;
  __hiprt_bf __hip_bfloat162(const __hip_bfloat16 &a, const __hip_bfloat16 &b) : x(a), y(b) {}
  __hiprt_bf __hip_bfloat162(const __hip_bfloat162_raw &raw) : x(__hip_bfloat16_raw{raw.x}), y(__hip_bfloat16_raw{raw.y}) {}
  __hiprt_bf operator __hip_bfloat162_raw() const { return {x.__x, y.__x}; }
  __hiprt_bf operator float2() const { return float2(float(x), float(y)); }
};

__hiprt_bf __hip_bfloat16 __float2bfloat16(float x) { return __hip_bfloat16(x); }
__hiprt_bf __hip_bfloat16 __float2bfloat16_rn(float x) { return __hip_bfloat16(x); }
__hiprt_bf __hip_bfloat16 __double2bfloat16(double x) { return __hip_bfloat16(x); }
__hiprt_bf float __bfloat162float(__hip_bfloat16 b) { return b; }
__hiprt_bf unsigned short __bfloat16_as_ushort(__hip_bfloat16 b) { return b.__x; }
__hiprt_bf short __bfloat16_as_short(__hip_bfloat16 b) { return short(b.__x); }
__hiprt_bf __hip_bfloat16 __ushort_as_bfloat16(unsigned short x) { return __hip_bfloat16(__hip_bfloat16_raw{x}); }
__hiprt_bf __hip_bfloat16 __short_as_bfloat16(short x) { return __ushort_as_bfloat16((unsigned short)x); }
#define HIPRT_INF_BF16 __ushort_as_bfloat16((unsigned short)0x7F80U)
#define HIPRT_NAN_BF16 __ushort_as_bfloat16((unsigned short)0x7FFFU)
#define HIPRT_ONE_BF16 __ushort_as_bfloat16((unsigned short)0x3F80U)
#define HIPRT_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0x0000U)
#define HIPRT_NEG_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0x8000U)
#define HIPRT_MAX_NORMAL_BF16 __ushort_as_bfloat16((unsigned short)0x7F7FU)
#define HIPRT_MIN_DENORM_BF16 __ushort_as_bfloat16((unsigned short)0x0001U)
__hiprt_bf __hip_bfloat16 __int2bfloat16_rn(int x) { return __hip_bfloat16(float(x)); }
__hiprt_bf __hip_bfloat16 __uint2bfloat16_rn(unsigned x) { return __hip_bfloat16(float(x)); }
__hiprt_bf int __bfloat162int_rn(__hip_bfloat16 b) { return __hiprt_convert<int>(rintf(b)); }
__hiprt_bf int __bfloat162int_rz(__hip_bfloat16 b) { return __hiprt_convert<int>(truncf(b)); }
__hiprt_bf __hip_bfloat162 __halves2bfloat162(__hip_bfloat16 a, __hip_bfloat16 b) { return {a, b}; }
__hiprt_bf __hip_bfloat162 make_bfloat162(__hip_bfloat16 a, __hip_bfloat16 b) { return {a, b}; }
__hiprt_bf __hip_bfloat162 __bfloat162bfloat162(__hip_bfloat16 a) { return {a, a}; }
__hiprt_bf __hip_bfloat162 __float2bfloat162_rn(float x) { return {__hip_bfloat16(x), __hip_bfloat16(x)}; }
__hiprt_bf __hip_bfloat162 __floats2bfloat162_rn(float a, float b) { return {__hip_bfloat16(a), __hip_bfloat16(b)}; }
__hiprt_bf __hip_bfloat162 __float22bfloat162_rn(float2 v) { return __floats2bfloat162_rn(v.x, v.y); }
__hiprt_bf float2 __bfloat1622float2(__hip_bfloat162 v) { return float2(float(v.x), float(v.y)); }
__hiprt_bf float __low2float(__hip_bfloat162 v) { return v.x; }
__hiprt_bf float __high2float(__hip_bfloat162 v) { return v.y; }
__hiprt_bf __hip_bfloat16 __low2bfloat16(__hip_bfloat162 v) { return v.x; }
__hiprt_bf __hip_bfloat16 __high2bfloat16(__hip_bfloat162 v) { return v.y; }
__hiprt_bf __hip_bfloat162 __low2bfloat162(__hip_bfloat162 v) { return {v.x, v.x}; }
__hiprt_bf __hip_bfloat162 __high2bfloat162(__hip_bfloat162 v) { return {v.y, v.y}; }
__hiprt_bf __hip_bfloat162 __lows2bfloat162(__hip_bfloat162 a, __hip_bfloat162 b) { return {a.x, b.x}; }
__hiprt_bf __hip_bfloat162 __highs2bfloat162(__hip_bfloat162 a, __hip_bfloat162 b) { return {a.y, b.y}; }
__hiprt_bf __hip_bfloat162 __lowhigh2highlow(__hip_bfloat162 v) { return {v.y, v.x}; }

#define __hiprt_bf_binary(op, name)                                                                                     \
  __hiprt_bf __hip_bfloat16 operator op(const __hip_bfloat16 &a, const __hip_bfloat16 &b) {                             \
    return __hip_bfloat16(float(a) op float(b));                                                                        \
  }                                                                                                                     \
  __hiprt_bf __hip_bfloat16 &operator op##=(__hip_bfloat16 &a, const __hip_bfloat16 &b) { return a = a op b; }          \
  __hiprt_bf __hip_bfloat162 operator op(const __hip_bfloat162 &a, const __hip_bfloat162 &b) {                          \
    return {a.x op b.x, a.y op b.y};                                                                                    \
  }                                                                                                                     \
  __hiprt_bf __hip_bfloat162 &operator op##=(__hip_bfloat162 &a, const __hip_bfloat162 &b) { return a = a op b; }       \
  __hiprt_bf __hip_bfloat16 __h##name(__hip_bfloat16 a, __hip_bfloat16 b) { return a op b; }
__hiprt_bf_binary(+, add) __hiprt_bf_binary(-, sub) __hiprt_bf_binary(*, mul) __hiprt_bf_binary(/, div)
#undef __hiprt_bf_binary
__hiprt_bf __hip_bfloat162 __hadd2(__hip_bfloat162 a, __hip_bfloat162 b) { return a + b; }
__hiprt_bf __hip_bfloat162 __hsub2(__hip_bfloat162 a, __hip_bfloat162 b) { return a - b; }
__hiprt_bf __hip_bfloat162 __hmul2(__hip_bfloat162 a, __hip_bfloat162 b) { return a * b; }
__hiprt_bf __hip_bfloat162 __h2div(__hip_bfloat162 a, __hip_bfloat162 b) { return a / b; }
__hiprt_bf __hip_bfloat16 __hfma(__hip_bfloat16 a, __hip_bfloat16 b, __hip_bfloat16 c) {
  return __hip_bfloat16(fmaf(a, b, c));
}
__hiprt_bf __hip_bfloat162 __hfma2(__hip_bfloat162 a, __hip_bfloat162 b, __hip_bfloat162 c) {
  return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
__hiprt_bf __hip_bfloat16 __hneg(__hip_bfloat16 b) { return __ushort_as_bfloat16((unsigned short)(b.__x ^ 0x8000)); }
__hiprt_bf __hip_bfloat16 __habs(__hip_bfloat16 b) { return __ushort_as_bfloat16(b.__x & 0x7fff); }
__hiprt_bf __hip_bfloat162 __hneg2(__hip_bfloat162 v) { return {__hneg(v.x), __hneg(v.y)}; }
__hiprt_bf __hip_bfloat162 __habs2(__hip_bfloat162 v) { return {__habs(v.x), __habs(v.y)}; }
__hiprt_bf __hip_bfloat16 operator-(const __hip_bfloat16 &b) { return __hneg(b); }
__hiprt_bf __hip_bfloat162 operator-(const __hip_bfloat162 &v) { return __hneg2(v); }

// A pair of truths as 1 and 0.
__hiprt_bf __hip_bfloat162 __hiprt_bf_truths(bool x, bool y) { return {__hip_bfloat16(float(x)), __hip_bfloat16(float(y))}; }
#define __hiprt_bf_compare(op, name)                                                                                  \
  __hiprt_bf bool operator op(const __hip_bfloat16 &a, const __hip_bfloat16 &b) { return float(a) op float(b); }      \
  __hiprt_bf bool __h##name(__hip_bfloat16 a, __hip_bfloat16 b) { return a op b; }                                    \
  __hiprt_bf __hip_bfloat162 __h##name##2(__hip_bfloat162 a, __hip_bfloat162 b) {                                     \
    return __hiprt_bf_truths(a.x op b.x, a.y op b.y);                                                                 \
  }                                                                                                                   \
  __hiprt_bf bool __hb##name##2(__hip_bfloat162 a, __hip_bfloat162 b) { return a.x op b.x && a.y op b.y; }
__hiprt_bf_compare(==, eq) __hiprt_bf_compare(!=, ne) __hiprt_bf_compare(<, lt) __hiprt_bf_compare(<=, le)
__hiprt_bf_compare(>, gt) __hiprt_bf_compare(>=, ge)
#undef __hiprt_bf_compare
#define __hiprt_bf_order(op) \
  __hiprt_bf bool operator op(const __hip_bfloat162 &a, const __hip_bfloat162 &b) { return a.x op b.x && a.y op b.y; }
__hiprt_bf_order(==) __hiprt_bf_order(<) __hiprt_bf_order(>) __hiprt_bf_order(<=) __hiprt_bf_order(>=)
#undef __hiprt_bf_order
__hiprt_bf bool operator!=(const __hip_bfloat162 &a, const __hip_bfloat162 &b) { return !(a == b); }
// The unordered forms also hold if an operand is not a number.
#define __hiprt_bf_unordered(name, value)                                                                             \
  __hiprt_bf bool __h##name(__hip_bfloat16 a, __hip_bfloat16 b) { return value; }                                     \
  __hiprt_bf __hip_bfloat162 __h##name##2(__hip_bfloat162 a, __hip_bfloat162 b) {                                     \
    return __hiprt_bf_truths(__h##name(a.x, b.x), __h##name(a.y, b.y));                                               \
  }                                                                                                                   \
  __hiprt_bf bool __hb##name##2(__hip_bfloat162 a, __hip_bfloat162 b) { return __h##name(a.x, b.x) && __h##name(a.y, b.y); }
__hiprt_bf_unordered(equ, !(a < b || a > b)) __hiprt_bf_unordered(neu, !(a == b)) __hiprt_bf_unordered(ltu, !(a >= b))
__hiprt_bf_unordered(leu, !(a > b)) __hiprt_bf_unordered(gtu, !(a <= b)) __hiprt_bf_unordered(geu, !(a < b))
#undef __hiprt_bf_unordered
__hiprt_bf bool __hisnan(__hip_bfloat16 b) { return isnan(float(b)); }
__hiprt_bf int __hisinf(__hip_bfloat16 b) { return isinf(float(b)) ? (float(b) > 0.0f ? 1 : -1) : 0; }
__hiprt_bf __hip_bfloat16 __hmax(__hip_bfloat16 a, __hip_bfloat16 b) { return __hip_bfloat16(fmaxf(a, b)); }
__hiprt_bf __hip_bfloat16 __hmin(__hip_bfloat16 a, __hip_bfloat16 b) { return __hip_bfloat16(fminf(a, b)); }
__hiprt_bf __hip_bfloat162 __hmax2(__hip_bfloat162 a, __hip_bfloat162 b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }
__hiprt_bf __hip_bfloat162 __hmin2(__hip_bfloat162 a, __hip_bfloat162 b) { return {__hmin(a.x, b.x), __hmin(a.y, b.y)}; }
__hiprt_bf __hip_bfloat162 __hisnan2(__hip_bfloat162 v) { return __hiprt_bf_truths(__hisnan(v.x), __hisnan(v.y)); }

#define __hiprt_bf_function(name, value)                                                              \
  __hiprt_bf __hip_bfloat16 h##name(__hip_bfloat16 b) {                                               \
    const float x = b;                                                                                \
    return __hip_bfloat16(value);                                                                     \
  }                                                                                                   \
  __hiprt_bf __hip_bfloat162 h2##name(__hip_bfloat162 v) { return {h##name(v.x), h##name(v.y)}; }
__hiprt_bf_function(sqrt, sqrtf(x)) __hiprt_bf_function(rsqrt, rsqrtf(x)) __hiprt_bf_function(rcp, 1.0f / x)
__hiprt_bf_function(exp, expf(x)) __hiprt_bf_function(exp2, exp2f(x)) __hiprt_bf_function(exp10, exp10f(x))
__hiprt_bf_function(log, logf(x)) __hiprt_bf_function(log2, log2f(x)) __hiprt_bf_function(log10, log10f(x))
__hiprt_bf_function(sin, sinf(x)) __hiprt_bf_function(cos, cosf(x))
__hiprt_bf_function(floor, floorf(x)) __hiprt_bf_function(ceil, ceilf(x)) __hiprt_bf_function(trunc, truncf(x))
__hiprt_bf_function(rint, rintf(x))
#undef __hiprt_bf_function

__hiprt_bf __hip_bfloat162 unsafeAtomicAdd(__hip_bfloat162 *p, __hip_bfloat162 v) {
  return __hiprt_update(p, [=](__hip_bfloat162 old) { return old + v; });
}
__hiprt_bf __hip_bfloat162 atomicAdd(__hip_bfloat162 *p, __hip_bfloat162 v) { return unsafeAtomicAdd(p, v); }
#undef __hiprt_bf
