// Scalar and vector types of the dialect. Everything lives in namespace metal, and so does the kernel: its names
// hide the built-in headers' own half, uint3 or exp instead of clashing with them.
namespace metal {

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
typedef decltype(sizeof(0)) size_t;

template <typename To, typename From>
HIPRT_INLINE To as_type(From value) {
  static_assert(sizeof(To) == sizeof(From), "as_type: the widths differ");
  return __builtin_bit_cast(To, value);
}

#if HIPRT_TARGET_NVIDIA
struct half {
  ushort bits;
  half() = default;
  HIPRT_INLINE explicit half(float value) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value)); }
  HIPRT_INLINE operator float() const {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
  }
};
#else
typedef _Float16 half;
#endif

// Upper half of a float32; rounds to nearest, ties to even.
struct bfloat16_t {
  ushort bits;
  bfloat16_t() = default;
  HIPRT_INLINE explicit bfloat16_t(float value) {
    uint word = as_type<uint>(value);
    bool nan = (word & 0x7fffffffu) > 0x7f800000u;
    bits = ushort(nan ? (word >> 16) | 0x40u : (word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
  }
  HIPRT_INLINE operator float() const { return as_type<float>(uint(bits) << 16); }
};

#define HIPRT_OPERATORS(type, op)                                                                             \
  HIPRT_INLINE type operator op(type a, type b) { return type(float(a) op float(b)); }                        \
  HIPRT_INLINE type& operator op##=(type& a, float b) { return a = type(float(a) op b); }
HIPRT_OPERATORS(bfloat16_t, +)
HIPRT_OPERATORS(bfloat16_t, -)
HIPRT_OPERATORS(bfloat16_t, *)
HIPRT_OPERATORS(bfloat16_t, /)
#if HIPRT_TARGET_NVIDIA
HIPRT_OPERATORS(half, +)
HIPRT_OPERATORS(half, -)
HIPRT_OPERATORS(half, *)
HIPRT_OPERATORS(half, /)
#endif
#undef HIPRT_OPERATORS
typedef half float16_t;
typedef bfloat16_t bfloat;

#define HIPRT_VECTORS(scalar, name)                                                                           \
  struct alignas(2 * sizeof(scalar)) name##2 {                                                                \
    scalar x, y;                                                                                              \
    name##2() = default;                                                                                      \
    HIPRT_INLINE explicit name##2(scalar v) : x(v), y(v) {}                                                   \
    HIPRT_INLINE name##2(scalar a, scalar b) : x(a), y(b) {}                                                  \
  };                                                                                                          \
  struct alignas(4 * sizeof(scalar)) name##3 {                                                                \
    scalar x, y, z;                                                                                           \
    name##3() = default;                                                                                      \
    HIPRT_INLINE explicit name##3(scalar v) : x(v), y(v), z(v) {}                                             \
    HIPRT_INLINE name##3(scalar a, scalar b, scalar c) : x(a), y(b), z(c) {}                                  \
  };                                                                                                          \
  struct alignas(4 * sizeof(scalar)) name##4 {                                                                \
    scalar x, y, z, w;                                                                                        \
    name##4() = default;                                                                                      \
    HIPRT_INLINE explicit name##4(scalar v) : x(v), y(v), z(v), w(v) {}                                       \
    HIPRT_INLINE name##4(scalar a, scalar b, scalar c, scalar d) : x(a), y(b), z(c), w(d) {}                  \
  };                                                                                                          \
  HIPRT_VECTOR_OPERATOR(name, +)                                                                              \
  HIPRT_VECTOR_OPERATOR(name, -)                                                                              \
  HIPRT_VECTOR_OPERATOR(name, *)                                                                              \
  HIPRT_VECTOR_OPERATOR(name, /)
#define HIPRT_VECTOR_OPERATOR(name, op)                                                                       \
  HIPRT_INLINE name##2 operator op(name##2 a, name##2 b) { return name##2(a.x op b.x, a.y op b.y); }          \
  HIPRT_INLINE name##3 operator op(name##3 a, name##3 b) { return name##3(a.x op b.x, a.y op b.y, a.z op b.z); } \
  HIPRT_INLINE name##4 operator op(name##4 a, name##4 b) {                                                    \
    return name##4(a.x op b.x, a.y op b.y, a.z op b.z, a.w op b.w);                                           \
  }
HIPRT_VECTORS(float, float)
HIPRT_VECTORS(int, int)
HIPRT_VECTORS(uint, uint)
#undef HIPRT_VECTORS
#undef HIPRT_VECTOR_OPERATOR

// N neighbours in memory, read and written as one access where the target has one that wide.
template <typename T, int N>
struct alignas(sizeof(T) * N) pack {
  T values[N];
};

}  // namespace metal
