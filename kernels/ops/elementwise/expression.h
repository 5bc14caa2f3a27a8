// What elementwise ops need beyond the functions of the prelude, for integers too.
namespace metal {

template <typename C>
inline C larger(C a, C b) {
  return a > b || a != a ? a : b;
}
template <typename C>
inline C smaller(C a, C b) {
  return a < b || a != a ? a : b;
}
template <typename C>
inline C absolute(C a) {
  return a < C(0) ? C(-a) : a;
}
inline bool absolute(bool a) { return a; }
inline float absolute(float a) { return fabs(a); }

template <typename C>
inline bool is_nan(C a) {
  return isnan(float(a));
}
template <typename C>
inline bool is_infinite(C a) {
  return isinf(float(a));
}
template <typename C>
inline bool is_finite(C a) {
  return isfinite(float(a));
}
template <typename C>
inline C conjugate_of(C a) {
  return a;
}
inline float divided(float a, float by) { return a / by; }

template <typename C>
inline C sign_of(C a) {
  return C(C(a > C(0)) - C(a < C(0)));
}
inline bool sign_of(bool a) { return a; }
inline float sign_of(float a) { return a > 0.0f ? 1.0f : a < 0.0f ? -1.0f : a == 0.0f ? 0.0f : a; }

template <typename C>
inline C inverted(C a) {
  return C(~a);
}
inline bool inverted(bool a) { return !a; }

// Integers are whole already.
template <typename C>
inline C whole_down(C a) {
  return a;
}
template <typename C>
inline C whole_up(C a) {
  return a;
}
template <typename C>
inline C whole_near(C a) {
  return a;
}
inline float whole_down(float a) { return floor(a); }
inline float whole_up(float a) { return ceil(a); }
inline float whole_near(float a) { return rint(a); }

// The quotient rounded down, and what it leaves: of the divisor's sign. Integers by zero give zero.
template <typename C>
inline C modulo(C a, C b) {
  if (b == C(0)) return C(0);
  if (b == C(-1)) return C(0);
  C rest = C(a % b);
  return rest != C(0) && (rest < C(0)) != (b < C(0)) ? C(rest + b) : rest;
}
inline bool modulo(bool, bool) { return false; }
inline float modulo(float a, float b) {
  // By steps of at most 24 bits of the quotient, so that every difference is exact.
  float size = fabs(b), rest = fabs(a);
  if (!(size > 0.0f) || !(rest < INFINITY)) return NAN;
  if (!isnan(size) && size < INFINITY) {
    while (rest >= size) {
      float step = size;
      while (rest - step >= step) step += step;
      rest -= step;
    }
  }
  if (isnan(size)) return NAN;
  rest = a < 0.0f ? -rest : rest;
  return rest != 0.0f && (rest < 0.0f) != (b < 0.0f) ? rest + b : rest;
}
template <typename C>
inline C quotient(C a, C b) {
  if (b == C(0)) return C(0);
  if (b == C(-1)) return C(C(0) - a);
  C whole_part = C(a / b);
  return C(whole_part * b) != a && (a < C(0)) != (b < C(0)) ? C(whole_part - C(1)) : whole_part;
}
inline bool quotient(bool a, bool b) { return a && b; }
inline float quotient(float a, float b) { return floor(a / b); }

template <typename C>
inline C power_of(C a, C b) {
  if (b < C(0)) return C(0);
  C result = C(1);
  for (C rest = b; rest > C(0); rest = C(rest >> 1)) {
    if (rest & C(1)) result = C(result * a);
    a = C(a * a);
  }
  return result;
}
inline bool power_of(bool a, bool b) { return a || !b; }
inline float power_of(float a, float b) { return pow(a, b); }

inline float log1p_of(float a) {
  float sum = 1.0f + a;
  return sum > 0.0f && sum < INFINITY ? log(sum) + (a - (sum - 1.0f)) / sum : log(sum);
}
inline float expm1_of(float a) {
  float power = exp(a);
  if (power == 1.0f) return a;
  float less = power - 1.0f;
  // A large power has nothing to mend, and its product with a is beyond float32.
  return less == -1.0f || power > 1e30f ? less : less * a / log(power);
}
inline float tanh_of(float a) {
  float t = expm1_of(-2.0f * fabs(a));
  float size = -t / (t + 2.0f);
  return a < 0.0f ? -size : a == 0.0f ? a : size;
}
// By polynomials: of erf(a) / a in a^2 up to 1, of -log(1 - erf(a)) behind it; from 4 on the result is 1.
inline float erf_of(float a) {
  const float size = fabs(a) < 4.0f ? fabs(a) : 4.0f, z = a * a;
  float p;
  if (size <= 1.0f) {
    p = mad(7.88911930e-5f, z, -8.02084105e-4f);
    p = mad(p, z, 5.18953521e-3f);
    p = mad(p, z, -2.68544443e-2f);
    p = mad(p, z, 1.12836003e-1f);
    p = mad(p, z, -3.76126260e-1f);
    return mad(p, z, 1.12837911f) * a;
  }
  p = mad(2.16868501e-5f, size, -4.41336364e-4f);
  p = mad(p, size, 4.20456193e-3f);
  p = mad(p, size, -2.52082571e-2f);
  p = mad(p, size, 1.08418576e-1f);
  p = mad(p, size, 6.33219898e-1f);
  p = mad(p, size, 1.12957847f);
  p = 1.0f - exp(-mad(p, size, -1.88040227e-4f));
  return isnan(a) ? a : a < 0.0f ? -p : p;
}
// Giles, "Approximating the erfinv function", 2010, with the coefficients of MLX, to below 3 ulp.
inline float erfinv_of(float a) {
  const float t = log(fma(a, 0.0f - a, 1.0f));
  float p;
  if (fabs(t) > 6.125f) {
    p = fma(3.03697567e-10f, t, 2.93243101e-8f);
    p = fma(p, t, 1.22150334e-6f);
    p = fma(p, t, 2.84108955e-5f);
    p = fma(p, t, 3.93552968e-4f);
    p = fma(p, t, 3.02698812e-3f);
    p = fma(p, t, 4.83185798e-3f);
    p = fma(p, t, -2.64646143e-1f);
    return a * fma(p, t, 8.40016484e-1f);
  }
  p = fma(5.43877832e-9f, t, 1.43285448e-7f);
  p = fma(p, t, 1.22774793e-6f);
  p = fma(p, t, 1.12963626e-7f);
  p = fma(p, t, -5.61530760e-5f);
  p = fma(p, t, -1.47697632e-4f);
  p = fma(p, t, 2.31468678e-3f);
  p = fma(p, t, 1.15392581e-2f);
  p = fma(p, t, -2.32015476e-1f);
  return a * fma(p, t, 8.86226892e-1f);
}
inline float logaddexp_of(float a, float b) {
  float high = larger(a, b), low = smaller(a, b);
  return high == low ? high + 0.693147181f : high == INFINITY ? high : high + log1p_of(exp(low - high));
}

}  // namespace metal
