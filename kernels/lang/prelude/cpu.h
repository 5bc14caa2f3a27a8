// The CPU device's lanes: plain loops take eight values at a time, and exp and log need no libm and vectorise.
#if HIPRT_TARGET_CPU
#if defined(__FAST_MATH__) && defined(__clang__)
#define HIPRT_AS_WRITTEN(value) __arithmetic_fence(value)
#elif defined(__FAST_MATH__)
#define HIPRT_AS_WRITTEN(value) __builtin_assoc_barrier(value)
#else
#define HIPRT_AS_WRITTEN(value) value
#endif

namespace metal {
namespace hiprt {

typedef float f32x8 __attribute__((vector_size(32)));
typedef int i32x8 __attribute__((vector_size(32)));
typedef uint u32x8 __attribute__((vector_size(32)));
typedef ushort u16x8 __attribute__((vector_size(16)));
typedef uchar u8x8 __attribute__((vector_size(8)));
typedef half f16x8 __attribute__((vector_size(16)));

template <typename V>
HIPRT_INLINE V load_as(const void* from) {
  V value;
  __builtin_memcpy(&value, from, sizeof(V));
  return value;
}

HIPRT_INLINE f32x8 splat(float x) { return f32x8{x, x, x, x, x, x, x, x}; }
HIPRT_INLINE f32x8 load8(const float* from) { return load_as<f32x8>(from); }
HIPRT_INLINE f32x8 load8(const half* from) { return __builtin_convertvector(load_as<f16x8>(from), f32x8); }
HIPRT_INLINE f32x8 load8(const bfloat16_t* from) {
  return (f32x8)(__builtin_convertvector(load_as<u16x8>(from), u32x8) << 16);
}
HIPRT_INLINE void store8(float* to, f32x8 v) { __builtin_memcpy(to, &v, sizeof(v)); }
HIPRT_INLINE void store8(half* to, f32x8 v) {
  f16x8 narrow = __builtin_convertvector(v, f16x8);
  __builtin_memcpy(to, &narrow, sizeof(narrow));
}
HIPRT_INLINE void store8(bfloat16_t* to, f32x8 v) {
  u32x8 word = (u32x8)v;
  u32x8 rounded = (word + 0x7fffu + ((word >> 16) & 1u)) >> 16;
  i32x8 nan = (i32x8)((word & 0x7fffffffu) > 0x7f800000u);
  u16x8 narrow = __builtin_convertvector(((u32x8)nan & ((word >> 16) | 0x40u)) | (~(u32x8)nan & rounded), u16x8);
  __builtin_memcpy(to, &narrow, sizeof(narrow));
}
HIPRT_INLINE float sum8(f32x8 v) { return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7])); }

// The same text serves one float and eight; only choose() and the bit views differ.
HIPRT_INLINE float choose(int mask, float yes, float no) { return mask ? yes : no; }
HIPRT_INLINE f32x8 choose(i32x8 mask, f32x8 yes, f32x8 no) { return (f32x8)((mask & (i32x8)yes) | (~mask & (i32x8)no)); }
HIPRT_INLINE int bits_of(float x) { return as_type<int>(x); }
HIPRT_INLINE i32x8 bits_of(f32x8 x) { return (i32x8)x; }
HIPRT_INLINE float float_of(int x) { return as_type<float>(x); }
HIPRT_INLINE f32x8 float_of(i32x8 x) { return (f32x8)x; }
HIPRT_INLINE float fill(float, float x) { return x; }
HIPRT_INLINE f32x8 fill(f32x8, float x) { return splat(x); }
HIPRT_INLINE float number_of(int x) { return float(x); }
HIPRT_INLINE f32x8 number_of(i32x8 x) { return __builtin_convertvector(x, f32x8); }

// exp(x) = 2^n * exp(r), |r| <= ln(2)/2, by a polynomial: within 1.5 ulp over the whole range.
template <typename V>
HIPRT_INLINE V exp_of(V x) {
  const V magic = fill(x, 12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer, found in the low bits
  V low = fill(x, -104.0f), high = fill(x, 89.0f);
  V bounded = choose(x < low, low, choose(x > high, high, x));
  // The asm keeps fast math from removing the sum.
  V shifted = HIPRT_AS_WRITTEN(mad(bounded, fill(x, 1.44269502f), magic));
  V n = shifted - magic;
  V r = mad(n, fill(x, -3.19461833e-5f), mad(n, fill(x, -0.693115234f), bounded));
  V p = fill(x, 1.38144649e-3f);
  p = mad(p, r, fill(x, 8.36878084e-3f));
  p = mad(p, r, fill(x, 4.16683927e-2f));
  p = mad(p, r, fill(x, 1.66665196e-1f));
  p = mad(p, r, fill(x, 0.49999994f));
  p = mad(p, r * r, r) + fill(x, 1.0f);
  // The scaling takes two steps, so that results below the smallest normal number are rounded and not lost.
  auto power = bits_of(shifted) - bits_of(magic);
  auto half_power = power >> 1;
  return p * float_of((half_power + 127) << 23) * float_of((power - half_power + 127) << 23);
}

// log(x) = e*ln(2) + log(m), m in [sqrt(1/2), sqrt(2)); x must be a positive normal number.
template <typename V>
HIPRT_INLINE V log_of(V x) {
  auto shifted = bits_of(x) - 0x3f3504f3;
  V e = number_of(shifted >> 23);
  V f = float_of((shifted & 0x7fffff) + 0x3f3504f3) - fill(x, 1.0f);
  V p = fill(x, -7.63442963e-2f);
  p = mad(p, f, fill(x, 1.27615497e-1f));
  p = mad(p, f, fill(x, -1.31601945e-1f));
  p = mad(p, f, fill(x, 1.42017618e-1f));
  p = mad(p, f, fill(x, -1.66233569e-1f));
  p = mad(p, f, fill(x, 2.00012267e-1f));
  p = mad(p, f, fill(x, -2.50008225e-1f));
  p = mad(p, f, fill(x, 3.33333313e-1f));
  V square = f * f;
  V tail = mad(e, fill(x, 3.19461833e-5f), mad(p * f, square, fill(x, -0.5f) * square));
  return mad(e, fill(x, 0.693115234f), f + tail);
}

}  // namespace hiprt

HIPRT_INLINE float exp(float x) { return hiprt::exp_of(x); }
HIPRT_INLINE float log(float x) {
  if (x < 1.17549435e-38f) {
    return x < 0.0f ? NAN : x == 0.0f ? -INFINITY : hiprt::log_of(x * 8388608.0f) - 15.9423847f;
  }
  return x < INFINITY ? hiprt::log_of(x) : x;
}

}  // namespace metal
#endif
