// __half and __half2 with HIP's intrinsics. Arithmetic rounds once per operation, to nearest even, whether or not the
// machine computes in 16 bits: a float holds sums, products and quotients of two halves well enough for that.
#pragma once
#pragma GCC system_header

#define __hiprt_half __hiprt_inline

struct __half_raw {
  union {
    _Float16 data;
    unsigned short x;
  };
};

struct __half {
  _Float16 data;
  __half() = default;
  __hiprt_half __half(_Float16 v) : data(v) {}
  __hiprt_half __half(const __half_raw &v) : data(v.data) {}
  __hiprt_half __half(float v) : data(_Float16(v)) {}
  __hiprt_half __half(double v) : data(_Float16(v)) {}
  template <class T, class = typename __hiprt_if<__hiprt_is_whole<T>::value, T>::type>
  __hiprt_half __half(T v) : data(_Float16(float(v))) {}
  __hiprt_half operator float() const { return float(data); }
  __hiprt_half explicit operator _Float16() const { return data; }
  __hiprt_half operator __half_raw() const {
    __half_raw raw;
    raw.data = data;
    return raw;
  }
};

// Two halves as numbers of the language. HIP has a vector of the compiler here, which programs use by these members and operators.
struct alignas(4) _Float16_2 {
  _Float16 x, y;
  __hiprt_half _Float16 &operator[](int i) { return i ? y : x; }
  __hiprt_half _Float16 operator[](int i) const { return i ? y : x; }
};
#define __hiprt_half_numbers(op)                                                                                               \
  __hiprt_half _Float16_2 operator op(const _Float16_2 &a, const _Float16_2 &b) {                                              \
    return {_Float16(float(a.x) op float(b.x)), _Float16(float(a.y) op float(b.y))};                                           \
  }                                                                                                                            \
  __hiprt_half _Float16_2 &operator op##=(_Float16_2 &a, const _Float16_2 &b) { return a = a op b; }
__hiprt_half_numbers(+) __hiprt_half_numbers(-) __hiprt_half_numbers(*) __hiprt_half_numbers(/)
#undef __hiprt_half_numbers
__hiprt_half _Float16_2 operator-(const _Float16_2 &v) { return {_Float16(-v.x), _Float16(-v.y)}; }

struct alignas(4) __half2_raw {
  union {
    struct {
      __half_raw x, y;
    };
    _Float16_2 data;
  };
};

struct alignas(4) __half2 {
#ifdef __clang__
  union {
    struct {
      __half x, y;
    };
    _Float16_2 data;
  };
#else  // g++ takes no members with constructors there
  __half x, y;
#endif
  __half2() = default;
  __hiprt_half __half2(const __half &a, const __half &b) : x(a), y(b) {}
  __hiprt_half __half2(const _Float16_2 &v) : x(v.x), y(v.y) {}
  __hiprt_half __half2(const __half2_raw &raw) : x(raw.x), y(raw.y) {}
  __hiprt_half explicit __half2(const __half &both) : x(both), y(both) {}
  __hiprt_half __half2(float both) : x(both), y(both) {}
  __hiprt_half __half2(double both) : x(both), y(both) {}
  template <class T, class = typename __hiprt_if<__hiprt_is_whole<T>::value, T>::type>
  __hiprt_half __half2(T both) : x(both), y(both) {}
  __hiprt_half operator _Float16_2() const { return {x.data, y.data}; }
  __hiprt_half operator __half2_raw() const {
    __half2_raw raw;
    raw.data = *this;
    return raw;
  }
};
typedef __half half;
typedef __half2 half2;

__hiprt_half unsigned short __half_as_ushort(__half h) { return __hiprt_bits<unsigned short>(h); }
__hiprt_half short __half_as_short(__half h) { return __hiprt_bits<short>(h); }
__hiprt_half __half __ushort_as_half(unsigned short x) { return __half(__hiprt_bits<_Float16>(x)); }
__hiprt_half __half __short_as_half(short x) { return __half(__hiprt_bits<_Float16>(x)); }
#define HIPRT_INF_FP16 __ushort_as_half((unsigned short)0x7C00U)
#define HIPRT_NAN_FP16 __ushort_as_half((unsigned short)0x7FFFU)
#define HIPRT_ONE_FP16 __ushort_as_half((unsigned short)0x3C00U)
#define HIPRT_ZERO_FP16 __ushort_as_half((unsigned short)0x0000U)
#define HIPRT_MAX_NORMAL_FP16 __ushort_as_half((unsigned short)0x7BFFU)

__hiprt_half __half __float2half(float x) { return __half(x); }
__hiprt_half __half __float2half_rn(float x) { return __half(x); }
__hiprt_half __half __double2half(double x) { return __half(x); }
__hiprt_half float __half2float(__half h) { return float(h.data); }

// The neighbour of the nearest half on the side that the rounding mode wants.
__hiprt_half __half __hiprt_half_toward(float x, bool up, bool down) {
  const __half near(x);
  const float value = near;
  const unsigned short bits = __half_as_ushort(near);
  if (up && value < x) return __ushort_as_half((unsigned short)(bits == 0x8000 ? 0x0001 : bits & 0x8000 ? bits - 1 : bits + 1));
  if (down && value > x) return __ushort_as_half((unsigned short)(bits == 0 ? 0x8001 : bits & 0x8000 ? bits + 1 : bits - 1));
  return near;
}
__hiprt_half __half __float2half_ru(float x) { return __hiprt_half_toward(x, true, false); }
__hiprt_half __half __float2half_rd(float x) { return __hiprt_half_toward(x, false, true); }
__hiprt_half __half __float2half_rz(float x) { return __hiprt_half_toward(x, x < 0.0f, x > 0.0f); }

// Whole numbers that a float does not hold are beyond every half.
#define __hiprt_half_from(T, name)                                                   \
  __hiprt_half __half __##name##2half_rn(T x) { return __half(float(x)); }           \
  __hiprt_half __half __##name##2half_rz(T x) { return __float2half_rz(float(x)); }  \
  __hiprt_half __half __##name##2half_ru(T x) { return __float2half_ru(float(x)); }  \
  __hiprt_half __half __##name##2half_rd(T x) { return __float2half_rd(float(x)); }
__hiprt_half_from(int, int) __hiprt_half_from(unsigned, uint) __hiprt_half_from(short, short)
__hiprt_half_from(unsigned short, ushort) __hiprt_half_from(long long, ll) __hiprt_half_from(unsigned long long, ull)
#undef __hiprt_half_from
#define __hiprt_half_to(T, name)                                                                       \
  __hiprt_half T __half2##name##_rn(__half h) { return __hiprt_convert<T>(rintf(float(h))); }          \
  __hiprt_half T __half2##name##_rz(__half h) { return __hiprt_convert<T>(truncf(float(h))); }         \
  __hiprt_half T __half2##name##_ru(__half h) { return __hiprt_convert<T>(ceilf(float(h))); }          \
  __hiprt_half T __half2##name##_rd(__half h) { return __hiprt_convert<T>(floorf(float(h))); }
__hiprt_half_to(int, int) __hiprt_half_to(unsigned, uint) __hiprt_half_to(short, short)
__hiprt_half_to(unsigned short, ushort) __hiprt_half_to(long long, ll) __hiprt_half_to(unsigned long long, ull)
#undef __hiprt_half_to

__hiprt_half __half2 make_half2(__half a, __half b) { return __half2(a, b); }
__hiprt_half __half2 __halves2half2(__half a, __half b) { return __half2(a, b); }
__hiprt_half __half2 __half2half2(__half a) { return __half2(a, a); }
__hiprt_half __half2 __float2half2_rn(float x) { return __half2half2(__half(x)); }
__hiprt_half __half2 __floats2half2_rn(float a, float b) { return __half2(__half(a), __half(b)); }
__hiprt_half __half2 __float22half2_rn(float2 v) { return __floats2half2_rn(v.x, v.y); }
__hiprt_half float2 __half22float2(__half2 v) { return float2(float(v.x), float(v.y)); }
__hiprt_half float __low2float(__half2 v) { return v.x; }
__hiprt_half float __high2float(__half2 v) { return v.y; }
__hiprt_half __half __low2half(__half2 v) { return v.x; }
__hiprt_half __half __high2half(__half2 v) { return v.y; }
__hiprt_half __half2 __low2half2(__half2 v) { return __half2(v.x, v.x); }
__hiprt_half __half2 __high2half2(__half2 v) { return __half2(v.y, v.y); }
__hiprt_half __half2 __lows2half2(__half2 a, __half2 b) { return __half2(a.x, b.x); }
__hiprt_half __half2 __highs2half2(__half2 a, __half2 b) { return __half2(a.y, b.y); }
__hiprt_half __half2 __lowhigh2highlow(__half2 v) { return __half2(v.y, v.x); }

// a * b + c with one rounding: the float sum is rounded to odd, which a second rounding to half cannot spoil.
__hiprt_half __half __hfma(__half a, __half b, __half c) {
  const float p = float(a) * float(b), t = float(c), s = p + t, q = s - p;
  const float error = (p - (s - q)) + (t - q);
  const int bits = __float_as_int(s), step = (error > 0.0f) == (s > 0.0f) ? 1 : -1;
  return __half(error != 0.0f && !(bits & 1) && isfinite(s) ? __int_as_float(bits + step) : s);
}

#define __hiprt_half_binary(op, name)                                                                             \
  __hiprt_half __half operator op(const __half &a, const __half &b) { return __half(float(a) op float(b)); }      \
  __hiprt_half __half &operator op##=(__half &a, const __half &b) { return a = a op b; }                          \
  __hiprt_half __half2 operator op(const __half2 &a, const __half2 &b) { return {a.x op b.x, a.y op b.y}; }       \
  __hiprt_half __half2 &operator op##=(__half2 &a, const __half2 &b) { return a = a op b; }                       \
  __hiprt_half __half __h##name(__half a, __half b) { return a op b; }                                            \
  __hiprt_half __half __h##name##_rn(__half a, __half b) { return a op b; }                                       \
  __hiprt_half __half __h##name##_sat(__half a, __half b) { return __half(__saturatef(float(a op b))); }
__hiprt_half_binary(+, add) __hiprt_half_binary(-, sub) __hiprt_half_binary(*, mul) __hiprt_half_binary(/, div)
#undef __hiprt_half_binary
__hiprt_half __half2 __hadd2(__half2 a, __half2 b) { return a + b; }
__hiprt_half __half2 __hsub2(__half2 a, __half2 b) { return a - b; }
__hiprt_half __half2 __hmul2(__half2 a, __half2 b) { return a * b; }
__hiprt_half __half2 __h2div(__half2 a, __half2 b) { return a / b; }
__hiprt_half __half2 __hfma2(__half2 a, __half2 b, __half2 c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }
__hiprt_half __half2 __hadd2_sat(__half2 a, __half2 b) { return {__hadd_sat(a.x, b.x), __hadd_sat(a.y, b.y)}; }
__hiprt_half __half2 __hsub2_sat(__half2 a, __half2 b) { return {__hsub_sat(a.x, b.x), __hsub_sat(a.y, b.y)}; }
__hiprt_half __half2 __hmul2_sat(__half2 a, __half2 b) { return {__hmul_sat(a.x, b.x), __hmul_sat(a.y, b.y)}; }
__hiprt_half __half __hfma_sat(__half a, __half b, __half c) { return __half(__saturatef(float(__hfma(a, b, c)))); }
__hiprt_half __half __hneg(__half h) { return __ushort_as_half(__half_as_ushort(h) ^ 0x8000); }
__hiprt_half __half __habs(__half h) { return __ushort_as_half(__half_as_ushort(h) & 0x7fff); }
__hiprt_half __half2 __hneg2(__half2 v) { return {__hneg(v.x), __hneg(v.y)}; }
__hiprt_half __half2 __habs2(__half2 v) { return {__habs(v.x), __habs(v.y)}; }
__hiprt_half __half operator-(const __half &h) { return __hneg(h); }
__hiprt_half __half operator+(const __half &h) { return h; }
__hiprt_half __half2 operator-(const __half2 &v) { return __hneg2(v); }
__hiprt_half __half2 operator+(const __half2 &v) { return v; }
#define __hiprt_half_step(T, op)                                    \
  __hiprt_half T &operator op##op(T &a) { return a = a op T(1.0f); } \
  __hiprt_half T operator op##op(T &a, int) {                       \
    const T before = a;                                             \
    a = a op T(1.0f);                                               \
    return before;                                                  \
  }
__hiprt_half_step(__half, +) __hiprt_half_step(__half, -) __hiprt_half_step(__half2, +) __hiprt_half_step(__half2, -)
#undef __hiprt_half_step
__hiprt_half __half __clamp_01(__half h) { return __half(__saturatef(float(h))); }
__hiprt_half __half2 __hfma2_sat(__half2 a, __half2 b, __half2 c) { return {__hfma_sat(a.x, b.x, c.x), __hfma_sat(a.y, b.y, c.y)}; }
__hiprt_half float amd_mixed_dot(__half2 a, __half2 b, float c, bool saturate) {
  const float sum = float(a.x) * float(b.x) + float(a.y) * float(b.y) + c;
  return saturate ? __saturatef(sum) : sum;
}

#define __hiprt_half_compare(op, name)                                                                                   \
  __hiprt_half bool operator op(const __half &a, const __half &b) { return float(a) op float(b); }                       \
  __hiprt_half bool __h##name(__half a, __half b) { return a op b; }                                                     \
  __hiprt_half __half2 __h##name##2(__half2 a, __half2 b) { return {__half(float(a.x op b.x)), __half(float(a.y op b.y))}; } \
  __hiprt_half bool __hb##name##2(__half2 a, __half2 b) { return a.x op b.x && a.y op b.y; }
#define __hiprt_half_order(op) \
  __hiprt_half bool operator op(const __half2 &a, const __half2 &b) { return a.x op b.x && a.y op b.y; }
__hiprt_half_order(==) __hiprt_half_order(<) __hiprt_half_order(>)
#undef __hiprt_half_order
// HIP's own headers make these of the other two.
__hiprt_half bool operator<=(const __half2 &a, const __half2 &b) { return !(a > b); }
__hiprt_half bool operator>=(const __half2 &a, const __half2 &b) { return !(a < b); }
__hiprt_half_compare(==, eq) __hiprt_half_compare(!=, ne) __hiprt_half_compare(<, lt) __hiprt_half_compare(<=, le)
__hiprt_half_compare(>, gt) __hiprt_half_compare(>=, ge)
#undef __hiprt_half_compare
__hiprt_half bool operator!=(const __half2 &a, const __half2 &b) { return !(a == b); }
// The unordered forms also hold if an operand is not a number.
#define __hiprt_half_unordered(name, value)                                                                        \
  __hiprt_half bool __h##name(__half a, __half b) { return value; }                                                \
  __hiprt_half __half2 __h##name##2(__half2 a, __half2 b) { return {__half(__h##name(a.x, b.x)), __half(__h##name(a.y, b.y))}; } \
  __hiprt_half bool __hb##name##2(__half2 a, __half2 b) { return __h##name(a.x, b.x) && __h##name(a.y, b.y); }
__hiprt_half_unordered(equ, !(a < b || a > b)) __hiprt_half_unordered(neu, !(a == b)) __hiprt_half_unordered(ltu, !(a >= b))
__hiprt_half_unordered(leu, !(a > b)) __hiprt_half_unordered(gtu, !(a <= b)) __hiprt_half_unordered(geu, !(a < b))
#undef __hiprt_half_unordered
__hiprt_half bool __hisnan(__half h) { return isnan(float(h)); }
__hiprt_half int __hisinf(__half h) { return isinf(float(h)) ? (float(h) > 0.0f ? 1 : -1) : 0; }
__hiprt_half __half2 __hisinf2(__half2 v) { return {__half(__hisinf(v.x)), __half(__hisinf(v.y))}; }
__hiprt_half __half2 __hisnan2(__half2 v) { return {__half(float(__hisnan(v.x))), __half(float(__hisnan(v.y)))}; }
__hiprt_half __half __hmax(__half a, __half b) { return __half(fmaxf(a, b)); }
__hiprt_half __half __hmin(__half a, __half b) { return __half(fminf(a, b)); }
__hiprt_half __half __hmax_nan(__half a, __half b) { return __hisnan(a) ? a : __hisnan(b) ? b : __hmax(a, b); }
__hiprt_half __half __hmin_nan(__half a, __half b) { return __hisnan(a) ? a : __hisnan(b) ? b : __hmin(a, b); }
__hiprt_half __half2 __hmax2(__half2 a, __half2 b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }
__hiprt_half __half2 __hmin2(__half2 a, __half2 b) { return {__hmin(a.x, b.x), __hmin(a.y, b.y)}; }

#define __hiprt_half_function(name, value)                                                    \
  __hiprt_half __half h##name(__half h) {                                                     \
    const float x = h;                                                                        \
    return __half(value);                                                                     \
  }                                                                                           \
  __hiprt_half __half2 h2##name(__half2 v) { return {h##name(v.x), h##name(v.y)}; }
__hiprt_half_function(sqrt, sqrtf(x)) __hiprt_half_function(rsqrt, rsqrtf(x)) __hiprt_half_function(rcp, 1.0f / x)
__hiprt_half_function(exp, expf(x)) __hiprt_half_function(exp2, exp2f(x)) __hiprt_half_function(exp10, exp10f(x))
__hiprt_half_function(log, logf(x)) __hiprt_half_function(log2, log2f(x)) __hiprt_half_function(log10, log10f(x))
__hiprt_half_function(sin, sinf(x)) __hiprt_half_function(cos, cosf(x)) __hiprt_half_function(tanh, tanhf(x))
__hiprt_half_function(floor, floorf(x)) __hiprt_half_function(ceil, ceilf(x)) __hiprt_half_function(trunc, truncf(x))
__hiprt_half_function(rint, rintf(x))
#undef __hiprt_half_function

__hiprt_half __half atomicAdd(__half *p, __half v) {
  return __hiprt_update(p, [=](__half old) { return old + v; });
}
__hiprt_half __half2 atomicAdd(__half2 *p, __half2 v) {
  return __hiprt_update(p, [=](__half2 old) { return old + v; });
}
__hiprt_half __half2 unsafeAtomicAdd(__half2 *p, __half2 v) { return atomicAdd(p, v); }
#undef __hiprt_half
