// Float functions. They replace a C library's, so that results have the same bits on every machine and with every compiler,
// and so that loops around them are vectorised. Most evaluate a short polynomial in double, which leaves one rounding; expf and
// exp2f, the hot ones, stay in float (below 1 ulp). Coefficients: fits of ours to the exact functions.
#pragma once
#pragma GCC system_header

#define __hiprt_math __hiprt_libc

#ifndef INFINITY
#define INFINITY (__builtin_inff())
#endif
#ifndef NAN
#define NAN (__builtin_nanf(""))
#endif
#ifndef FLT_MAX
#define FLT_MAX __FLT_MAX__
#define FLT_MIN __FLT_MIN__
#define FLT_EPSILON __FLT_EPSILON__
#endif

#ifndef __HIPRT_HIPCC__  // the standard library's serve device code too
__hiprt_math bool isnan(float x) { return __builtin_isnan(x); }
__hiprt_math bool isnan(double x) { return __builtin_isnan(x); }
__hiprt_math bool isinf(float x) { return __builtin_isinf(x); }
__hiprt_math bool isinf(double x) { return __builtin_isinf(x); }
__hiprt_math bool isfinite(float x) { return __builtin_isfinite(x); }
__hiprt_math bool isfinite(double x) { return __builtin_isfinite(x); }
__hiprt_math bool signbit(float x) { return __builtin_signbit(x); }
__hiprt_math bool signbit(double x) { return __builtin_signbit(x); }
#endif

__hiprt_math float fabsf(float x) { return __builtin_fabsf(x); }
__hiprt_math float copysignf(float x, float sign) { return __builtin_copysignf(x, sign); }
__hiprt_math float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
__hiprt_math float sqrtf(float x) { return __builtin_sqrtf(x); }
__hiprt_math float rsqrtf(float x) { return float(1.0 / __builtin_sqrt(double(x))); }
__hiprt_math float floorf(float x) { return __builtin_floorf(x); }
__hiprt_math float ceilf(float x) { return __builtin_ceilf(x); }
__hiprt_math float truncf(float x) { return __builtin_truncf(x); }
__hiprt_math float rintf(float x) { return __builtin_rintf(x); }
__hiprt_math float nearbyintf(float x) { return __builtin_nearbyintf(x); }
__hiprt_math float roundf(float x) {
  const float whole = truncf(x);
  return fabsf(x - whole) >= 0.5f ? whole + copysignf(1.0f, x) : copysignf(whole, x);
}
__hiprt_math long lrintf(float x) { return long(rintf(x)); }
__hiprt_math long lroundf(float x) { return long(roundf(x)); }
__hiprt_math long long llrintf(float x) { return (long long)rintf(x); }
__hiprt_math long long llroundf(float x) { return (long long)roundf(x); }
// If one operand is not a number, the result is the other.
__hiprt_math float fminf(float a, float b) { return a < b || b != b ? a : b; }
__hiprt_math float fmaxf(float a, float b) { return a > b || b != b ? a : b; }
__hiprt_math float fdimf(float a, float b) { return a > b ? a - b : (a != a || b != b ? a + b : 0.0f); }
__hiprt_math float __saturatef(float x) { return x >= 1.0f ? 1.0f : (x > 0.0f ? x : 0.0f); }
__hiprt_math float modff(float x, float *whole) {
  *whole = truncf(x);
  return copysignf(__builtin_isinf(x) ? 0.0f : x - *whole, x);
}

// 2^n for -1022 <= n <= 1023, and 2^n as a float for -126 <= n <= 127.
__hiprt_math double __hiprt_pow2(long long n) { return __longlong_as_double((n + 1023) << 52); }
__hiprt_math float __hiprt_pow2f(int n) { return __int_as_float((n + 127) << 23); }

// p * 2^n in two steps, which is right also where the result is subnormal or too large.
__hiprt_math float __hiprt_scale(float p, int n) { return p * __hiprt_pow2f(n / 2) * __hiprt_pow2f(n - n / 2); }

__hiprt_math float expf(float x) {
  const float c = x > 89.0f ? 89.0f : x < -104.0f ? -104.0f : x == x ? x : 0.0f;
  const float n = __builtin_rintf(c * 1.44269504f);
  const float r = fmaf(n, -1.42860677e-06f, fmaf(n, -0.693145752f, c));
  float q = fmaf(r, 0.000197902977f, 0.00139447034f);
  q = fmaf(r, q, 0.00833349768f);
  q = fmaf(r, q, 0.0416662954f);
  q = fmaf(r, q, 0.166666657f);
  q = fmaf(r, q, 0.5f);
  const float result = __hiprt_scale(fmaf(r * r, q, r) + 1.0f, int(n));
  return x == x ? result : x;
}

__hiprt_math float exp2f(float x) {
  const float c = x > 129.0f ? 129.0f : x < -151.0f ? -151.0f : x == x ? x : 0.0f;
  const float n = __builtin_rintf(c), r = c - n;
  float q = fmaf(r, 1.53120036e-05f, 0.000154669382f);
  q = fmaf(r, q, 0.00133334473f);
  q = fmaf(r, q, 0.00961803738f);
  q = fmaf(r, q, 0.0555041097f);
  q = fmaf(r, q, 0.240226507f);
  q = fmaf(r, q, 0.693147181f);
  const float result = __hiprt_scale(fmaf(r, q, 1.0f), int(n));
  return x == x ? result : x;
}

// 2^x to about 1e-11, for the functions below. x is clamped to where a float result is infinite or zero.
__hiprt_math double __hiprt_exp2(double x) {
  const double c = x > 300.0 ? 300.0 : x < -300.0 ? -300.0 : x == x ? x : 0.0;
  const double n = __builtin_rint(c), r = (c - n) * 0.69314718055994531;
  double q = __builtin_fma(r, 1.0 / 362880, 1.0 / 40320);
  q = __builtin_fma(r, q, 1.0 / 5040);
  q = __builtin_fma(r, q, 1.0 / 720);
  q = __builtin_fma(r, q, 1.0 / 120);
  q = __builtin_fma(r, q, 1.0 / 24);
  q = __builtin_fma(r, q, 1.0 / 6);
  q = __builtin_fma(r, q, 0.5);
  q = __builtin_fma(r, q, 1.0);
  const double result = __builtin_fma(r, q, 1.0) * __hiprt_pow2((long long)n);
  return x == x ? result : x;
}

// log2 of a positive finite number that comes from a float, to about 1e-12: 2 atanh(s) as a series in s * s.
__hiprt_math double __hiprt_log2(double x) {
  const long long bits = __double_as_longlong(x);
  const long long e = (bits - 0x3fe6a09e667f3bcdll) >> 52;  // mantissa between sqrt(1/2) and sqrt(2)
  const double m = __longlong_as_double(bits - (e << 52)), s = (m - 1.0) / (m + 1.0), z = s * s;
  double q = __builtin_fma(z, 1.0 / 15, 1.0 / 13);
  q = __builtin_fma(z, q, 1.0 / 11);
  q = __builtin_fma(z, q, 1.0 / 9);
  q = __builtin_fma(z, q, 1.0 / 7);
  q = __builtin_fma(z, q, 1.0 / 5);
  q = __builtin_fma(z, q, 1.0 / 3);
  q = __builtin_fma(z, q, 1.0);
  return __builtin_fma(s * q, 2.8853900817779268, double(e));
}

// log2 with the special cases: zero, negative, infinite, not a number.
__hiprt_math double __hiprt_log2_full(double x) {
  const bool regular = x > 0.0 && x < __builtin_inf();
  const double result = __hiprt_log2(regular ? x : 1.0);
  return regular ? result : x == 0.0 ? -__builtin_inf() : x > 0.0 ? x : __builtin_nan("");
}
__hiprt_math float logf(float x) { return float(__hiprt_log2_full(x) * 0.69314718055994531); }
__hiprt_math float log2f(float x) { return float(__hiprt_log2_full(x)); }
__hiprt_math float log10f(float x) { return float(__hiprt_log2_full(x) * 0.30102999566398120); }
__hiprt_math float log1pf(float x) {
  const double t = x, u = 1.0 + t;
  const double log2 = __hiprt_log2_full(u), lost = u > 0.0 && u < __builtin_inf() ? (t - (u - 1.0)) / u : 0.0;
  return x == 0.0f ? x : float(__builtin_fma(log2, 0.69314718055994531, lost));
}
__hiprt_math float exp10f(float x) { return float(__hiprt_exp2(double(x) * 3.3219280948873623)); }
__hiprt_math float expm1f(float x) {
  const double t = x;
  double small = __builtin_fma(t, 1.0 / 120, 1.0 / 24);
  small = __builtin_fma(t, small, 1.0 / 6);
  small = __builtin_fma(t, small, 0.5);
  small = t * __builtin_fma(t, small, 1.0);
  return float(fabsf(x) < 0.01f ? small : __hiprt_exp2(t * 1.4426950408889634) - 1.0);
}

__hiprt_math float powf(float x, float y) {
  const float ax = fabsf(x), ay = fabsf(y), half = y * 0.5f;
  const bool whole = truncf(y) == y, odd = whole && truncf(half) != half && ay < 16777216.0f;
  const bool regular = ax > 0.0f && ax < INFINITY;
  const float power = float(__hiprt_exp2(double(y) * __hiprt_log2(regular ? ax : 1.0f)));
  const float edge = (ax == 0.0f) == (y > 0.0f) ? 0.0f : INFINITY;  // of zero and infinity
  float result = regular ? power : edge;
  result = ay == INFINITY && regular ? (ax == 1.0f ? 1.0f : (ax > 1.0f) == (y > 0.0f) ? INFINITY : 0.0f) : result;
  result = x < 0.0f || (x == 0.0f && signbit(x)) ? (odd ? -result : result) : result;
  result = x < 0.0f && regular && !whole && ay < INFINITY ? NAN : result;
  result = x != x || y != y ? x + y : result;
  return y == 0.0f || x == 1.0f ? 1.0f : result;
}
__hiprt_math float powif(float x, int n) { return powf(x, float(n)); }

__hiprt_math float tanhf(float x) {
  const double t = x, e = __hiprt_exp2((fabsf(x) < 20.0f || x != x ? t : copysignf(20.0f, x)) * 2.8853900817779268);
  const double z = t * t;
  double small = __builtin_fma(z, -17.0 / 315, 2.0 / 15);
  small = __builtin_fma(z, small, -1.0 / 3);
  small = t * __builtin_fma(z, small, 1.0);
  return float(fabsf(x) < 0.02f ? small : (e - 1.0) / (e + 1.0));
}
__hiprt_math float sinhf(float x) {
  const double t = x, e = __hiprt_exp2(t * 1.4426950408889634), z = t * t;
  double small = __builtin_fma(z, 1.0 / 5040, 1.0 / 120);
  small = __builtin_fma(z, small, 1.0 / 6);
  small = t * __builtin_fma(z, small, 1.0);
  return float(fabsf(x) < 0.1f ? small : 0.5 * (e - 1.0 / e));
}
__hiprt_math float coshf(float x) {
  const double e = __hiprt_exp2(double(x) * 1.4426950408889634);
  return float(0.5 * (e + 1.0 / e));
}

// erf below 1 as x P(x^2), above as 1 - 2^Q(x); it is 1 as a float from 4 on.
__hiprt_math float erff(float x) {
  const double a = fabsf(x) < 4.0f ? fabsf(x) : 4.0, z = a * a;
  double p = __builtin_fma(z, -9.641518763492234e-06, 0.00011256948845255301);
  p = __builtin_fma(z, p, -0.0008482828973832318);
  p = __builtin_fma(z, p, 0.005220945441570298);
  p = __builtin_fma(z, p, -0.026865400045204452);
  p = __builtin_fma(z, p, 0.1128378197415649);
  p = __builtin_fma(z, p, -0.3761263843465423);
  p = __builtin_fma(z, p, 1.1283791670580223);
  double q = __builtin_fma(a, 3.059278377965689e-07, -3.571215312923167e-05);
  q = __builtin_fma(a, q, 0.0006641520020643342);
  q = __builtin_fma(a, q, -0.006161212422414535);
  q = __builtin_fma(a, q, 0.03657074129362775);
  q = __builtin_fma(a, q, -0.15668616600796675);
  q = __builtin_fma(a, q, -0.9133208250957728);
  q = __builtin_fma(a, q, -1.6297394966535657);
  q = __builtin_fma(a, q, 0.0002915164583166987);
  const float result = float(a < 1.0 ? a * p : 1.0 - __hiprt_exp2(q));
  return x == x ? copysignf(result, x) : x;
}

// sin and cos of r, at most pi/4 in size (and a little more).
__hiprt_math double __hiprt_sin_near(double r) {
  const double z = r * r;
  double q = __builtin_fma(z, -2.4761384676984488e-08, 2.7555354073759915e-06);
  q = __builtin_fma(z, q, -0.00019841263805598006);
  q = __builtin_fma(z, q, 0.008333333325239563);
  q = __builtin_fma(z, q, -0.16666666666631408);
  return __builtin_fma(r * z, q, r);
}
__hiprt_math double __hiprt_cos_near(double r) {
  const double z = r * r;
  double q = __builtin_fma(z, -2.720989261652402e-07, 2.479951588622287e-05);
  q = __builtin_fma(z, q, -0.0013888883738024155);
  q = __builtin_fma(z, q, 0.0416666666226528);
  return __builtin_fma(z * z, q, __builtin_fma(z, -0.5, 1.0));
}
// sin of r + quarter * pi/2.
__hiprt_math double __hiprt_sin_quarter(double r, int quarter) {
  const double s = quarter & 1 ? __hiprt_cos_near(r) : __hiprt_sin_near(r);
  return quarter & 2 ? -s : s;
}
// x less the nearest multiple of pi/2, whose number is the quarter; for |x| up to 4e6.
__hiprt_math double __hiprt_reduce(float x, int *quarter) {
  const double n = __builtin_rint(double(x) * 0.63661977236758134);
  *quarter = int(n);
  return __builtin_fma(n, -6.077100506506192e-11, __builtin_fma(n, -1.5707963267341256, double(x)));
}
// The fast forms leave out the large arguments, and with them the branch that keeps a loop from being vectorised.
__hiprt_math float __sinf(float x) {
  int quarter;
  const double r = __hiprt_reduce(fabsf(x) < 4e6f ? x : 0.0f, &quarter);
  return x == 0.0f ? x : float(__hiprt_sin_quarter(r, quarter));
}
__hiprt_math float __cosf(float x) {
  int quarter;
  const double r = __hiprt_reduce(fabsf(x) < 4e6f ? x : 0.0f, &quarter);
  return float(__hiprt_sin_quarter(r, quarter + 1));
}
__hiprt_math bool __hiprt_is_far(float x) { return __builtin_expect(!(fabsf(x) < 4e6f), 0); }
__hiprt_math float sinf(float x) { return __hiprt_is_far(x) ? float(__hiprt_host_table->sin(x)) : __sinf(x); }
__hiprt_math float cosf(float x) { return __hiprt_is_far(x) ? float(__hiprt_host_table->cos(x)) : __cosf(x); }
__hiprt_math float tanf(float x) {
  int quarter;
  if (__hiprt_is_far(x)) return float(__hiprt_host_table->tan(x));
  const double r = __hiprt_reduce(x, &quarter), s = __hiprt_sin_near(r), c = __hiprt_cos_near(r);
  return x == 0.0f ? x : float(quarter & 1 ? -c / s : s / c);
}
__hiprt_math void sincosf(float x, float *s, float *c) { *s = sinf(x), *c = cosf(x); }
__hiprt_math void __sincosf(float x, float *s, float *c) { *s = __sinf(x), *c = __cosf(x); }
__hiprt_math float sinpif(float x) {
  const float n = __builtin_rintf(x * 2.0f), r = fmaf(n, -0.5f, x);
  return __builtin_isfinite(x) ? float(__hiprt_sin_quarter(double(r) * 3.14159265358979324, int(n - 4.0f * floorf(n * 0.25f)))) : NAN;
}
__hiprt_math float cospif(float x) {
  const float n = __builtin_rintf(x * 2.0f), r = fmaf(n, -0.5f, x);
  return __builtin_isfinite(x) ? float(__hiprt_sin_quarter(double(r) * 3.14159265358979324, int(n - 4.0f * floorf(n * 0.25f)) + 1)) : NAN;
}

__hiprt_math float ldexpf(float x, int n) {
  const int c = n > 300 ? 300 : n < -300 ? -300 : n;
  return float(double(x) * __hiprt_pow2(c));
}
__hiprt_math float scalbnf(float x, int n) { return ldexpf(x, n); }
__hiprt_math int ilogbf(float x) { return int((__double_as_longlong(fabsf(x)) >> 52)) - 1023; }
__hiprt_math float logbf(float x) { return x == 0.0f ? -INFINITY : __builtin_isfinite(x) ? float(ilogbf(x)) : x * x; }
__hiprt_math float frexpf(float x, int *exponent) {
  *exponent = x == 0.0f || !isfinite(x) ? 0 : ilogbf(x) + 1;
  return x == 0.0f || !isfinite(x) ? x : float(double(x) * __hiprt_pow2(-*exponent));
}

// The fast forms of the hardware's instructions; here they are the exact ones.
__hiprt_math float __expf(float x) { return expf(x); }
__hiprt_math float __exp10f(float x) { return exp10f(x); }
__hiprt_math float __logf(float x) { return logf(x); }
__hiprt_math float __log2f(float x) { return log2f(x); }
__hiprt_math float __log10f(float x) { return log10f(x); }
__hiprt_math float __powf(float x, float y) { return powf(x, y); }
__hiprt_math float __tanf(float x) { return tanf(x); }
__hiprt_math float __fdividef(float a, float b) { return a / b; }
__hiprt_math float fdividef(float a, float b) { return a / b; }
__hiprt_math float __frcp_rn(float x) { return 1.0f / x; }
__hiprt_math float __fsqrt_rn(float x) { return sqrtf(x); }
__hiprt_math float __frsqrt_rn(float x) { return rsqrtf(x); }
__hiprt_math float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }

// The compiler must not contract these into a fused multiply-add: a pragma tells clang, an empty asm stops others.
#ifdef __clang__
#define __hiprt_rounded(T, expression)   \
  _Pragma("clang fp contract(off)")      \
  return expression
#else
#ifdef __aarch64__
#define __hiprt_float_register "+w"
#else
#define __hiprt_float_register "+x"
#endif
#define __hiprt_rounded(T, expression)                 \
  T result = expression;                               \
  __asm__("" : __hiprt_float_register(result));        \
  return result
#endif
__hiprt_math float __fadd_rn(float a, float b) { __hiprt_rounded(float, a + b); }
__hiprt_math float __fsub_rn(float a, float b) { __hiprt_rounded(float, a - b); }
__hiprt_math float __fmul_rn(float a, float b) { __hiprt_rounded(float, a * b); }
__hiprt_math float __fdiv_rn(float a, float b) { return a / b; }
__hiprt_math double __dadd_rn(double a, double b) { __hiprt_rounded(double, a + b); }
__hiprt_math double __dsub_rn(double a, double b) { __hiprt_rounded(double, a - b); }
__hiprt_math double __dmul_rn(double a, double b) { __hiprt_rounded(double, a * b); }
__hiprt_math double __ddiv_rn(double a, double b) { return a / b; }
#undef __hiprt_rounded
