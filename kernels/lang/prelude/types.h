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

// It copies bytes, because vectors are no trivial classes.
#if HIPRT_TARGET_NVIDIA && !defined(__clang__)
#define HIPRT_COPY memcpy
#else
#define HIPRT_COPY __builtin_memcpy
#endif

template <typename To, typename From>
HIPRT_INLINE To as_type(From value) {
  static_assert(sizeof(To) == sizeof(From), "as_type: the widths differ");
  To result;
  HIPRT_COPY(&result, &value, sizeof(To));
  return result;
}

// A class is copied from every address space; the checker's language needs that said for the constant one.
#ifdef HIPRT_TARGET_METAL
#define HIPRT_FROM_CONSTANT(T, ...)  \
  T(const T&) = default;             \
  T& operator=(const T&) = default;  \
  HIPRT_FROM_CONSTANT_MORE(T, __VA_ARGS__)
#define HIPRT_FROM_CONSTANT_MORE(T, ...) \
  T(const __constant T& other) { __VA_ARGS__; }
#else
#define HIPRT_FROM_CONSTANT(T, ...)
#define HIPRT_FROM_CONSTANT_MORE(T, ...)
#endif

namespace hiprt {

template <bool CONDITION, typename T = int>
struct only_if {};
template <typename T>
struct only_if<true, T> {
  typedef T type;
};
template <typename A, typename B>
struct same {
  static constexpr bool value = false;
};
template <typename A>
struct same<A, A> {
  static constexpr bool value = true;
};

// The kind of a built-in number: 1 for integers, 2 for floating point.
template <typename T>
struct number {
  static constexpr int kind = 0;
};
#define HIPRT_NUMBER(type, which)          \
  template <>                              \
  struct number<type> {                    \
    static constexpr int kind = which;     \
  };
HIPRT_NUMBER(bool, 1) HIPRT_NUMBER(char, 1) HIPRT_NUMBER(signed char, 1) HIPRT_NUMBER(unsigned char, 1)
HIPRT_NUMBER(short, 1) HIPRT_NUMBER(unsigned short, 1) HIPRT_NUMBER(int, 1) HIPRT_NUMBER(unsigned, 1)
HIPRT_NUMBER(long, 1) HIPRT_NUMBER(unsigned long, 1) HIPRT_NUMBER(long long, 1) HIPRT_NUMBER(unsigned long long, 1)
HIPRT_NUMBER(float, 2) HIPRT_NUMBER(double, 2)
#if !HIPRT_TARGET_NVIDIA
HIPRT_NUMBER(_Float16, 2)
#endif
#undef HIPRT_NUMBER

// N neighbouring elements in memory, which are read and written by one access where the target has one that wide.
template <typename T, int N>
struct alignas(sizeof(T) * N) pack {
  T values[N];
};

}  // namespace hiprt

#if HIPRT_TARGET_NVIDIA
struct half {
  ushort bits;
  half() = default;
  HIPRT_INLINE explicit half(float value) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value)); }
  // Integers convert implicitly, and any number may be assigned.
  template <typename T, typename hiprt::only_if<hiprt::number<T>::kind == 1>::type = 0>
  HIPRT_INLINE half(T value) : half(float(value)) {}
  template <typename T, typename hiprt::only_if<hiprt::number<T>::kind != 0>::type = 0>
  HIPRT_INLINE half &operator=(T value) {
    return *this = half(float(value));
  }
  HIPRT_INLINE operator float() const {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
  }
};
#elif !defined(HIPRT_TARGET_METAL)
typedef _Float16 half;
#endif
typedef half float16_t;

// The upper half of a float32; it rounds to nearest, ties to even. What is no number stays none, of whatever sign and payload.
// As in Metal, integers convert to it implicitly, it converts to float implicitly, and every other conversion is written out.
struct bfloat16_t {
  ushort bits;
  bfloat16_t() = default;
  HIPRT_FROM_CONSTANT(bfloat16_t, bits = other.bits)
#if HIPRT_TARGET_NVIDIA && __CUDA_ARCH__ >= 800
  HIPRT_INLINE explicit bfloat16_t(float value) { asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value)); }
#elif defined(__gfx950__)
  HIPRT_INLINE explicit bfloat16_t(float value) { bits = as_type<ushort>(__bf16(value)); }
#else
  HIPRT_INLINE explicit bfloat16_t(float value) {
    uint word = as_type<uint>(value);
    bool nan = value != value;
    const uint quiet = (word >> 16) | 0x40u, rounded = (word + 0x7fffu + ((word >> 16) & 1u)) >> 16;
    bits = ushort(nan ? quiet : rounded);
  }
#endif
  template <typename T, typename hiprt::only_if<hiprt::number<T>::kind == 1>::type = 0>
  HIPRT_INLINE bfloat16_t(T value) : bfloat16_t(float(value)) {}
  template <typename T, typename hiprt::only_if<hiprt::number<T>::kind == 2 && sizeof(T) != 4>::type = 0>
  HIPRT_INLINE explicit bfloat16_t(T value) : bfloat16_t(float(value)) {}
#if HIPRT_TARGET_NVIDIA
  HIPRT_INLINE explicit bfloat16_t(half value) : bfloat16_t(float(value)) {}
  HIPRT_INLINE explicit operator half() const { return half(value()); }
#endif
  HIPRT_INLINE float value() const { return as_type<float>(uint(bits) << 16); }
  template <typename T, typename hiprt::only_if<hiprt::same<T, float>::value>::type = 0>
  HIPRT_INLINE operator T() const {
    return value();
  }
  template <typename T, typename hiprt::only_if<hiprt::number<T>::kind != 0 && !hiprt::same<T, float>::value>::type = 0>
  HIPRT_INLINE explicit operator T() const {
    return T(value());
  }
};
typedef bfloat16_t bfloat;

namespace hiprt {
// The type of an operation of bfloat and another number: bfloat for integers, float for all others.
template <typename T, int KIND = number<T>::kind>
struct with_bfloat {};
template <typename T>
struct with_bfloat<T, 1> {
  typedef bfloat16_t type;
};
template <typename T>
struct with_bfloat<T, 2> {
  typedef float type;
};
}  // namespace hiprt

#define HIPRT_OPERATOR(op)                                                                                    \
  HIPRT_INLINE bfloat16_t operator op(bfloat16_t a, bfloat16_t b) { return bfloat16_t(a.value() op b.value()); } \
  template <typename T>                                                                                       \
  HIPRT_INLINE typename hiprt::with_bfloat<T>::type operator op(bfloat16_t a, T b) {                          \
    return typename hiprt::with_bfloat<T>::type(a.value() op float(b));                                       \
  }                                                                                                           \
  template <typename T>                                                                                       \
  HIPRT_INLINE typename hiprt::with_bfloat<T>::type operator op(T a, bfloat16_t b) {                          \
    return typename hiprt::with_bfloat<T>::type(float(a) op b.value());                                       \
  }                                                                                                           \
  HIPRT_INLINE bfloat16_t& operator op##=(bfloat16_t& a, float b) { return a = bfloat16_t(a.value() op b); }
HIPRT_OPERATOR(+) HIPRT_OPERATOR(-) HIPRT_OPERATOR(*) HIPRT_OPERATOR(/)
#undef HIPRT_OPERATOR
#define HIPRT_COMPARISON(op)                                                                                  \
  HIPRT_INLINE bool operator op(bfloat16_t a, bfloat16_t b) { return a.value() op b.value(); }                \
  template <typename T, typename = typename hiprt::with_bfloat<T>::type>                                      \
  HIPRT_INLINE bool operator op(bfloat16_t a, T b) {                                                          \
    return a.value() op float(b);                                                                             \
  }                                                                                                           \
  template <typename T, typename = typename hiprt::with_bfloat<T>::type>                                      \
  HIPRT_INLINE bool operator op(T a, bfloat16_t b) {                                                          \
    return float(a) op b.value();                                                                             \
  }
HIPRT_COMPARISON(==) HIPRT_COMPARISON(!=) HIPRT_COMPARISON(<) HIPRT_COMPARISON(>) HIPRT_COMPARISON(<=) HIPRT_COMPARISON(>=)
#undef HIPRT_COMPARISON
HIPRT_INLINE bfloat16_t operator-(bfloat16_t a) { return bfloat16_t(-a.value()); }
HIPRT_INLINE bfloat16_t operator+(bfloat16_t a) { return a; }

#if HIPRT_TARGET_NVIDIA
#define HIPRT_OPERATOR(op)                                                                                    \
  HIPRT_INLINE half operator op(half a, half b) { return half(float(a) op float(b)); }                        \
  HIPRT_INLINE half& operator op##=(half& a, float b) { return a = half(float(a) op b); }
HIPRT_OPERATOR(+) HIPRT_OPERATOR(-) HIPRT_OPERATOR(*) HIPRT_OPERATOR(/)
#undef HIPRT_OPERATOR
#endif

}  // namespace metal
