// What elementwise ops need of complex numbers, beyond the operators of the prelude.
namespace metal {

inline float real_of(complex64_t a) { return a.real; }
inline float imag_of(complex64_t a) { return a.imag; }
inline complex64_t conjugate_of(complex64_t a) { return complex64_t(a.real, -a.imag); }
inline complex64_t joined_of(float real, float imag) { return complex64_t(real, imag); }
inline complex64_t by_i(complex64_t a) { return complex64_t(-a.imag, a.real); }
inline complex64_t by_minus_i(complex64_t a) { return complex64_t(a.imag, -a.real); }

inline bool is_nan(complex64_t a) { return isnan(a.real) || isnan(a.imag); }
inline bool is_infinite(complex64_t a) { return isinf(a.real) || isinf(a.imag); }
inline bool is_finite(complex64_t a) { return isfinite(a.real) && isfinite(a.imag); }

inline complex64_t larger(complex64_t a, complex64_t b) { return is_nan(a) || (!is_nan(b) && a > b) ? a : b; }
inline complex64_t smaller(complex64_t a, complex64_t b) { return is_nan(a) || (!is_nan(b) && a < b) ? a : b; }

// The longer part is taken out of the root, so that squares stay in range.
inline float absolute(complex64_t a) {
  float high = fmax(fabs(a.real), fabs(a.imag)), low = fmin(fabs(a.real), fabs(a.imag));
  if (is_infinite(a)) return INFINITY;
  if (is_nan(a)) return NAN;
  if (high == 0.0f) return 0.0f;
  float ratio = low / high;
  return high * sqrt(1.0f + ratio * ratio);
}
inline complex64_t scaled(complex64_t a, float by) { return complex64_t(a.real * by, a.imag * by); }
inline complex64_t divided(complex64_t a, float by) { return complex64_t(a.real / by, a.imag / by); }
inline complex64_t sign_of(complex64_t a) { return a == complex64_t(0.0f) ? a : divided(a, absolute(a)); }
inline complex64_t whole_near(complex64_t a) { return complex64_t(rint(a.real), rint(a.imag)); }

inline complex64_t exp(complex64_t a) {
  float size = exp(a.real);
  if (a.imag == 0.0f) return complex64_t(size, a.imag);
  if (size == 0.0f) return complex64_t(0.0f);
  return complex64_t(size * cos(a.imag), size * sin(a.imag));
}
// Near the circle of size 1 the squares' distance from 1 is what counts.
inline complex64_t log(complex64_t a) {
  float size = absolute(a);
  float distance = (a.real - 1.0f) * (a.real + 1.0f) + a.imag * a.imag;
  return complex64_t(size > 0.7f && size < 1.4f ? 0.5f * log1p_of(distance) : log(size), atan2(a.imag, a.real));
}
inline complex64_t log2(complex64_t a) { return scaled(log(a), 1.44269504f); }
inline complex64_t log10(complex64_t a) { return scaled(log(a), 0.434294482f); }
inline complex64_t log1p_of(complex64_t a) { return log1p(a); }
inline complex64_t logaddexp_of(complex64_t a, complex64_t b) {
  complex64_t high = larger(a, b), low = smaller(a, b);
  if (is_nan(high) || is_nan(low)) return complex64_t(NAN, NAN);
  if (low.real == -INFINITY || high.real == INFINITY) return high;
  return high + log1p(exp(low - high));
}

inline complex64_t sqrt(complex64_t a) {
  float size = absolute(a);
  if (size == 0.0f) return complex64_t(0.0f, a.imag);
  if (isinf(a.imag)) return complex64_t(INFINITY, a.imag);
  float half_way = sqrt(0.5f * fabs(a.real) + 0.5f * size), other = 0.5f * (a.imag / half_way);
  if (a.real >= 0.0f) return complex64_t(half_way, other);
  return complex64_t(fabs(other), as_type<int>(a.imag) < 0 ? -half_way : half_way);
}
inline complex64_t power_of(complex64_t a, complex64_t b) {
  if (is_nan(a) || is_nan(b)) return complex64_t(NAN, NAN);
  if (b == complex64_t(0.0f)) return complex64_t(1.0f);
  if (a == complex64_t(0.0f)) return b.real > 0.0f ? a : complex64_t(NAN, NAN);
  return exp(b * log(a));
}

inline complex64_t sinh(complex64_t a) {
  return complex64_t(sinh(a.real) * cos(a.imag), cosh(a.real) * sin(a.imag));
}
inline complex64_t cosh(complex64_t a) {
  return complex64_t(cosh(a.real) * cos(a.imag), sinh(a.real) * sin(a.imag));
}
// From 10 on the exponential of twice the size is beyond what float32 tells from its neighbours.
inline complex64_t tanh_of(complex64_t a) {
  float size = fabs(a.real);
  if (size > 10.0f) {
    float rest = 4.0f * exp(-2.0f * size) * sin(a.imag) * cos(a.imag);
    return complex64_t(a.real < 0.0f ? -1.0f : 1.0f, rest);
  }
  float below = sinh(a.real) * sinh(a.real) + cos(a.imag) * cos(a.imag);
  return complex64_t(sinh(a.real) * cosh(a.real) / below, sin(a.imag) * cos(a.imag) / below);
}
inline complex64_t sin(complex64_t a) { return by_minus_i(sinh(by_i(a))); }
inline complex64_t cos(complex64_t a) { return cosh(by_i(a)); }
inline complex64_t tan(complex64_t a) { return by_minus_i(tanh_of(by_i(a))); }

// Kahan, "Branch cuts for complex elementary functions", 1987.
inline complex64_t asin(complex64_t a) {
  complex64_t less = sqrt(complex64_t(1.0f - a.real, -a.imag)), more = sqrt(complex64_t(1.0f + a.real, a.imag));
  return complex64_t(atan2(a.real, (less * more).real), asinh((conjugate_of(less) * more).imag));
}
inline complex64_t acos(complex64_t a) {
  complex64_t less = sqrt(complex64_t(1.0f - a.real, -a.imag)), more = sqrt(complex64_t(1.0f + a.real, a.imag));
  return complex64_t(2.0f * atan2(less.real, more.real), asinh((conjugate_of(more) * less).imag));
}
inline complex64_t acosh(complex64_t a) {
  complex64_t less = sqrt(complex64_t(a.real - 1.0f, a.imag)), more = sqrt(complex64_t(a.real + 1.0f, a.imag));
  return complex64_t(asinh((conjugate_of(less) * more).real), 2.0f * atan2(less.imag, more.real));
}
inline complex64_t asinh(complex64_t a) { return by_minus_i(asin(by_i(a))); }
inline complex64_t atanh(complex64_t a) {
  float size = fabs(a.real), less = 1.0f - size, square = a.imag * a.imag;
  float real = 0.25f * log1p_of(4.0f * size / (less * less + square));
  return complex64_t(a.real < 0.0f ? -real : real, 0.5f * atan2(2.0f * a.imag, less * (1.0f + size) - square));
}
inline complex64_t atan(complex64_t a) { return by_minus_i(atanh(by_i(a))); }

}  // namespace metal
