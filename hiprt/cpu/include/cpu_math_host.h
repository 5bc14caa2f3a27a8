// Double functions (the host's C library, through the table), the rarer float ones, conversions and overloads.
#pragma once
#pragma GCC system_header

#define __hiprt_entry_of(name) \
  __hiprt_math double name(double x) { return __hiprt_host_table->name(x); }
HIPRT_CPU_HOST_UNARY(__hiprt_entry_of)
#undef __hiprt_entry_of
#define __hiprt_entry_of(name) \
  __hiprt_math double name(double x, double y) { return __hiprt_host_table->name(x, y); }
HIPRT_CPU_HOST_BINARY(__hiprt_entry_of)
#undef __hiprt_entry_of

__hiprt_math double fabs(double x) { return __builtin_fabs(x); }
__hiprt_math double copysign(double x, double sign) { return __builtin_copysign(x, sign); }
__hiprt_math double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
__hiprt_math double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
__hiprt_math double sqrt(double x) { return __builtin_sqrt(x); }
__hiprt_math double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
__hiprt_math double __dsqrt_rn(double x) { return __builtin_sqrt(x); }
__hiprt_math double floor(double x) { return __builtin_floor(x); }
__hiprt_math double ceil(double x) { return __builtin_ceil(x); }
__hiprt_math double trunc(double x) { return __builtin_trunc(x); }
__hiprt_math double rint(double x) { return __builtin_rint(x); }
__hiprt_math double nearbyint(double x) { return __builtin_nearbyint(x); }
__hiprt_math double round(double x) {
  const double whole = trunc(x);
  return fabs(x - whole) >= 0.5 ? whole + copysign(1.0, x) : copysign(whole, x);
}
__hiprt_math long lrint(double x) { return long(rint(x)); }
__hiprt_math long lround(double x) { return long(round(x)); }
__hiprt_math long long llrint(double x) { return (long long)rint(x); }
__hiprt_math long long llround(double x) { return (long long)round(x); }
__hiprt_math double fmin(double a, double b) { return a < b || b != b ? a : b; }
__hiprt_math double fmax(double a, double b) { return a > b || b != b ? a : b; }
__hiprt_math double fdim(double a, double b) { return a > b ? a - b : (a != a || b != b ? a + b : 0.0); }
__hiprt_math double exp10(double x) { return pow(10.0, x); }
__hiprt_math void sincos(double x, double *s, double *c) { *s = sin(x), *c = cos(x); }
__hiprt_math double sinpi(double x) { return sin((x - 2.0 * rint(x * 0.5)) * 3.14159265358979324); }
__hiprt_math double cospi(double x) { return cos((x - 2.0 * rint(x * 0.5)) * 3.14159265358979324); }
__hiprt_math double modf(double x, double *whole) {
  *whole = trunc(x);
  return copysign(__builtin_isinf(x) ? 0.0 : x - *whole, x);
}
// The scaling takes three steps, because 2^n may be out of range where the result is not.
__hiprt_math double ldexp(double x, int n) {
  const int c = n > 2200 ? 2200 : n < -2200 ? -2200 : n, third = c / 3;
  return x * __hiprt_pow2(third) * __hiprt_pow2(third) * __hiprt_pow2(c - 2 * third);
}
__hiprt_math double scalbn(double x, int n) { return ldexp(x, n); }

__hiprt_math float asinf(float x) { return float(__hiprt_host_table->asin(x)); }
__hiprt_math float acosf(float x) { return float(__hiprt_host_table->acos(x)); }
__hiprt_math float atanf(float x) { return float(__hiprt_host_table->atan(x)); }
__hiprt_math float asinhf(float x) { return float(__hiprt_host_table->asinh(x)); }
__hiprt_math float acoshf(float x) { return float(__hiprt_host_table->acosh(x)); }
__hiprt_math float atanhf(float x) { return float(__hiprt_host_table->atanh(x)); }
__hiprt_math float cbrtf(float x) { return float(__hiprt_host_table->cbrt(x)); }
__hiprt_math float rcbrtf(float x) { return float(1.0 / __hiprt_host_table->cbrt(x)); }
__hiprt_math float erfcf(float x) { return float(__hiprt_host_table->erfc(x)); }
__hiprt_math float lgammaf(float x) { return float(__hiprt_host_table->lgamma(x)); }
__hiprt_math float tgammaf(float x) { return float(__hiprt_host_table->tgamma(x)); }
__hiprt_math float atan2f(float y, float x) { return float(__hiprt_host_table->atan2(y, x)); }
__hiprt_math float fmodf(float x, float y) { return float(__hiprt_host_table->fmod(x, y)); }
__hiprt_math float remainderf(float x, float y) { return float(__hiprt_host_table->remainder(x, y)); }
__hiprt_math float hypotf(float x, float y) { return float(__builtin_sqrt(__builtin_fma(x, x, double(y) * y))); }
__hiprt_math float nextafterf(float x, float y) {
  if (x != x || y != y || x == y) return x == y ? y : x + y;
  if (x == 0.0f) return copysignf(__int_as_float(1), y);
  return __int_as_float(__float_as_int(x) + ((x < y) == (x > 0.0f) ? 1 : -1));
}
__hiprt_math float normcdff(float x) { return float(0.5 * __hiprt_host_table->erfc(double(x) * -0.70710678118654752)); }

// The names without an f take floats too, and whole numbers as doubles.
template <bool, class T>
struct __hiprt_if {};
template <class T>
struct __hiprt_if<true, T> {
  typedef T type;
};
template <class T>
struct __hiprt_is_whole {
  static constexpr bool value = false;
};
template <class T, class U>
struct __hiprt_is_same {
  static constexpr bool value = false;
};
template <class T>
struct __hiprt_is_same<T, T> {
  static constexpr bool value = true;
};
// Programs for hiprtc, which has no <type_traits>, have come to name this template of HIP's own headers.
namespace __hip_internal {
template <class T, class U>
struct is_same : __hiprt_is_same<T, U> {};
}  // namespace __hip_internal
template <class T>
struct __hiprt_is_float {
  static constexpr bool value = __hiprt_is_same<T, float>::value || __hiprt_is_same<T, double>::value;
};
#define __hiprt_whole(T)                  \
  template <>                             \
  struct __hiprt_is_whole<T> {            \
    static constexpr bool value = true;   \
  };
__hiprt_whole(bool) __hiprt_whole(char) __hiprt_whole(signed char) __hiprt_whole(unsigned char) __hiprt_whole(short)
__hiprt_whole(unsigned short) __hiprt_whole(int) __hiprt_whole(unsigned) __hiprt_whole(long) __hiprt_whole(unsigned long)
__hiprt_whole(long long) __hiprt_whole(unsigned long long)
#undef __hiprt_whole
template <class T, class U>
struct __hiprt_are_mixed {  // two different arithmetic types, at least one of them floating
  static constexpr bool value = (__hiprt_is_whole<T>::value || __hiprt_is_float<T>::value) &&
                                (__hiprt_is_whole<U>::value || __hiprt_is_float<U>::value) &&
                                (__hiprt_is_float<T>::value ? !__hiprt_is_same<T, U>::value : __hiprt_is_float<U>::value);
};

#define __hiprt_overload(name)                                                                                     \
  __hiprt_math float name(float x) { return name##f(x); }                                                          \
  template <class T>                                                                                               \
  __hiprt_math typename __hiprt_if<__hiprt_is_whole<T>::value, double>::type name(T x) { return name(double(x)); }
#define __hiprt_overload2(name)                                                                                    \
  __hiprt_math float name(float x, float y) { return name##f(x, y); }                                              \
  __hiprt_overload_mixed(name, name)
#define __hiprt_overload_mixed(name, of)                                                                           \
  template <class T, class U>                                                                                      \
  __hiprt_math typename __hiprt_if<__hiprt_are_mixed<T, U>::value, double>::type name(T x, U y) {                  \
    return of(double(x), double(y));                                                                               \
  }
#ifndef __HIPRT_HIPCC__  // the standard library's serve device code too
HIPRT_CPU_HOST_UNARY(__hiprt_overload)
__hiprt_overload(fabs) __hiprt_overload(sqrt) __hiprt_overload(floor) __hiprt_overload(ceil) __hiprt_overload(trunc)
__hiprt_overload(rint) __hiprt_overload(nearbyint) __hiprt_overload(round)
HIPRT_CPU_HOST_BINARY(__hiprt_overload2)
__hiprt_overload2(copysign) __hiprt_overload2(fmin) __hiprt_overload2(fmax) __hiprt_overload2(fdim)
__hiprt_math float fma(float a, float b, float c) { return fmaf(a, b, c); }
__hiprt_math float ldexp(float x, int n) { return ldexpf(x, n); }
__hiprt_math float pow(float x, int n) { return powf(x, float(n)); }
__hiprt_math double pow(double x, int n) { return pow(x, double(n)); }
__hiprt_math float abs(float x) { return fabsf(x); }
__hiprt_math double abs(double x) { return fabs(x); }
#endif
__hiprt_overload(rsqrt) __hiprt_overload(exp10)
__hiprt_overload_mixed(min, fmin) __hiprt_overload_mixed(max, fmax)
#undef __hiprt_overload
#undef __hiprt_overload2
#undef __hiprt_overload_mixed
__hiprt_math float modf(float x, float *whole) { return modff(x, whole); }
__hiprt_math float frexp(float x, int *exponent) { return frexpf(x, exponent); }
__hiprt_math float min(float a, float b) { return fminf(a, b); }
__hiprt_math float max(float a, float b) { return fmaxf(a, b); }
__hiprt_math double min(double a, double b) { return fmin(a, b); }
__hiprt_math double max(double a, double b) { return fmax(a, b); }
// Conversions by rounding mode: nearest even, towards zero, up, down. Out of range: the nearest number there is; NaN: 0.
template <class To, class From>
__hiprt_inline To __hiprt_convert(From x) {
  const From below = From(To(1) << (sizeof(To) * 8 - 2)) * (To(-1) < To(0) ? 2 : 4);
  const To least = To(-1) < To(0) ? To(1) << (sizeof(To) * 8 - 1) : To(0), most = To(~least);
  return x != x ? To(0) : x >= below ? most : x <= From(least) ? least : To(x);
}
#define __hiprt_conversions(prefix, From, to, To)                                                \
  __hiprt_inline To prefix##2##to##_rn(From x) { return __hiprt_convert<To>(rint(x)); }            \
  __hiprt_inline To prefix##2##to##_rz(From x) { return __hiprt_convert<To>(trunc(x)); }           \
  __hiprt_inline To prefix##2##to##_ru(From x) { return __hiprt_convert<To>(ceil(x)); }            \
  __hiprt_inline To prefix##2##to##_rd(From x) { return __hiprt_convert<To>(floor(x)); }
__hiprt_conversions(__float, float, int, int) __hiprt_conversions(__float, float, uint, unsigned)
__hiprt_conversions(__float, float, ll, long long) __hiprt_conversions(__float, float, ull, unsigned long long)
__hiprt_conversions(__double, double, int, int) __hiprt_conversions(__double, double, uint, unsigned)
__hiprt_conversions(__double, double, ll, long long) __hiprt_conversions(__double, double, ull, unsigned long long)
#undef __hiprt_conversions
__hiprt_inline float __int2float_rn(int x) { return float(x); }
__hiprt_inline float __uint2float_rn(unsigned x) { return float(x); }
__hiprt_inline float __ll2float_rn(long long x) { return float(x); }
__hiprt_inline float __ull2float_rn(unsigned long long x) { return float(x); }
__hiprt_inline float __double2float_rn(double x) { return float(x); }
__hiprt_inline double __int2double_rn(int x) { return double(x); }
__hiprt_inline double __uint2double_rn(unsigned x) { return double(x); }
__hiprt_inline double __ll2double_rn(long long x) { return double(x); }

#ifdef __HIPRT_HIPCC__
// Device code reaches these by std:: too.
#define __hiprt_std(name) using ::name;
namespace std {
HIPRT_CPU_HOST_UNARY(__hiprt_std)
HIPRT_CPU_HOST_BINARY(__hiprt_std)
__hiprt_std(fabs) __hiprt_std(copysign) __hiprt_std(fma) __hiprt_std(sqrt) __hiprt_std(floor) __hiprt_std(ceil)
__hiprt_std(trunc) __hiprt_std(rint) __hiprt_std(nearbyint) __hiprt_std(round) __hiprt_std(lrint) __hiprt_std(lround)
__hiprt_std(llrint) __hiprt_std(llround) __hiprt_std(fmin) __hiprt_std(fmax) __hiprt_std(fdim) __hiprt_std(modf)
__hiprt_std(ldexp) __hiprt_std(scalbn) __hiprt_std(frexp) __hiprt_std(abs) __hiprt_std(labs) __hiprt_std(llabs)
__hiprt_std(malloc) __hiprt_std(free) __hiprt_std(memcpy) __hiprt_std(memset) __hiprt_std(printf) __hiprt_std(abort)
}
#undef __hiprt_std
#endif
#undef __hiprt_math
