// MLX's complex64_t. Comparisons order by the real part, then by the imaginary part.
namespace metal {

struct complex64_t {
  float real, imag;
  complex64_t() = default;
  HIPRT_FROM_CONSTANT(complex64_t, real = other.real; imag = other.imag)
  HIPRT_INLINE constexpr complex64_t(float real, float imag) : real(real), imag(imag) {}
  template <typename T, typename hiprt::only_if<hiprt::number<T>::kind != 0>::type = 0>
  HIPRT_INLINE constexpr complex64_t(T value) : real(float(value)), imag(0.0f) {}
  HIPRT_INLINE complex64_t(bfloat16_t value) : real(value.value()), imag(0.0f) {}
#if HIPRT_TARGET_NVIDIA
  HIPRT_INLINE complex64_t(half value) : real(float(value)), imag(0.0f) {}
#endif
  template <typename T, typename hiprt::only_if<hiprt::number<T>::kind != 0>::type = 0>
  HIPRT_INLINE explicit operator T() const {
    return T(real);
  }
  HIPRT_INLINE explicit operator bool() const { return real != 0.0f || imag != 0.0f; }
  HIPRT_INLINE explicit operator bfloat16_t() const { return bfloat16_t(real); }
#if HIPRT_TARGET_NVIDIA
  HIPRT_INLINE explicit operator half() const { return half(real); }
#endif
};

HIPRT_INLINE complex64_t operator-(complex64_t x) { return complex64_t(-x.real, -x.imag); }
HIPRT_INLINE complex64_t operator+(complex64_t a, complex64_t b) { return complex64_t(a.real + b.real, a.imag + b.imag); }
HIPRT_INLINE complex64_t operator-(complex64_t a, complex64_t b) { return complex64_t(a.real - b.real, a.imag - b.imag); }
HIPRT_INLINE complex64_t operator*(complex64_t a, complex64_t b) {
  return complex64_t(a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real);
}
HIPRT_INLINE complex64_t operator/(complex64_t a, complex64_t b) {
  float size = b.real * b.real + b.imag * b.imag;
  return complex64_t((a.real * b.real + a.imag * b.imag) / size, (a.imag * b.real - a.real * b.imag) / size);
}
// The remainder is taken of each part, and has the sign of the divisor.
HIPRT_INLINE complex64_t operator%(complex64_t a, complex64_t b) {
  float real = a.real - b.real * trunc(a.real / b.real), imag = a.imag - b.imag * trunc(a.imag / b.imag);
  if (real != 0.0f && (real < 0.0f) != (b.real < 0.0f)) real += b.real;
  if (imag != 0.0f && (imag < 0.0f) != (b.imag < 0.0f)) imag += b.imag;
  return complex64_t(real, imag);
}
HIPRT_INLINE complex64_t& operator+=(complex64_t& a, complex64_t b) { return a = a + b; }
HIPRT_INLINE complex64_t& operator-=(complex64_t& a, complex64_t b) { return a = a - b; }
HIPRT_INLINE complex64_t& operator*=(complex64_t& a, complex64_t b) { return a = a * b; }
HIPRT_INLINE complex64_t& operator/=(complex64_t& a, complex64_t b) { return a = a / b; }
HIPRT_INLINE bool operator==(complex64_t a, complex64_t b) { return a.real == b.real && a.imag == b.imag; }
HIPRT_INLINE bool operator!=(complex64_t a, complex64_t b) { return !(a == b); }
HIPRT_INLINE bool operator<(complex64_t a, complex64_t b) {
  return a.real < b.real || (a.real == b.real && a.imag < b.imag);
}
HIPRT_INLINE bool operator>(complex64_t a, complex64_t b) { return b < a; }
HIPRT_INLINE bool operator<=(complex64_t a, complex64_t b) { return !(b < a); }
HIPRT_INLINE bool operator>=(complex64_t a, complex64_t b) { return !(a < b); }

// What 1 + x loses to rounding is added back to the logarithm; the angle is exact without that.
HIPRT_INLINE complex64_t log1p(complex64_t x) {
  float angle = atan2(x.imag, 1.0f + x.real);
  float near = x.real * (2.0f + x.real) + x.imag * x.imag;
  return complex64_t(0.5f * log1p(near), angle);
}

}  // namespace metal
