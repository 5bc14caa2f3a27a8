// MLX's Limits: infinities for floating point, whose finite bounds have names of their own.
namespace metal {
namespace hiprt {
// This makes a number from its bits, for types that have no constants.
template <typename T, typename Bits, Bits BITS>
struct from_bits {
  HIPRT_INLINE operator T() const { return as_type<T>(Bits(BITS)); }
  template <typename U, typename only_if<number<U>::kind != 0 && !same<U, T>::value>::type = 0>
  HIPRT_INLINE explicit operator U() const {
    return U(T(*this));
  }
};
}  // namespace hiprt

template <typename U>
struct Limits {
  static constexpr U lowest = U(-1) < U(0) ? U(U(1) << (sizeof(U) * 8 - 1)) : U(0);
  static constexpr U min = lowest;
  static constexpr U max = U(~lowest);
  static constexpr U finite_min = lowest;
  static constexpr U finite_max = U(~lowest);
};
template <>
struct Limits<bool> {
  static constexpr bool min = false;
  static constexpr bool max = true;
};
#define HIPRT_LIMITS(T, Bits, infinity, largest, sign)                                \
  template <>                                                                         \
  struct Limits<T> {                                                                  \
    static constexpr hiprt::from_bits<T, Bits, infinity> max{};                       \
    static constexpr hiprt::from_bits<T, Bits, (sign | infinity)> min{};              \
    static constexpr hiprt::from_bits<T, Bits, largest> finite_max{};                 \
    static constexpr hiprt::from_bits<T, Bits, (sign | largest)> finite_min{};        \
  };
HIPRT_LIMITS(half, ushort, 0x7c00, 0x7bff, 0x8000)
HIPRT_LIMITS(bfloat16_t, ushort, 0x7f80, 0x7f7f, 0x8000)
HIPRT_LIMITS(float, uint, 0x7f800000u, 0x7f7fffffu, 0x80000000u)
#undef HIPRT_LIMITS
template <>
struct Limits<complex64_t> {
  struct corner {
    float sign;
    HIPRT_INLINE operator complex64_t() const { return complex64_t(sign * INFINITY, sign * INFINITY); }
  };
  static constexpr corner max{1.0f};
  static constexpr corner min{-1.0f};
};

}  // namespace metal
