// float4 and the other vectors: one template with HIP's name, so that mangled names agree.
#pragma once
#pragma GCC system_header

template <class T, unsigned n>
struct HIP_vector_type;

#define __hiprt_vec __hiprt_inline constexpr

template <class T>
struct HIP_vector_type<T, 1> {
  T x;
  HIP_vector_type() = default;
  explicit __hiprt_vec HIP_vector_type(T x_) : x(x_) {}
};

template <class T>
struct alignas(2 * sizeof(T)) HIP_vector_type<T, 2> {
  T x, y;
  HIP_vector_type() = default;
  explicit __hiprt_vec HIP_vector_type(T v) : x(v), y(v) {}
  __hiprt_vec HIP_vector_type(T x_, T y_) : x(x_), y(y_) {}
};

template <class T>
struct HIP_vector_type<T, 3> {
  T x, y, z;
  HIP_vector_type() = default;
  explicit __hiprt_vec HIP_vector_type(T v) : x(v), y(v), z(v) {}
  __hiprt_vec HIP_vector_type(T x_, T y_, T z_) : x(x_), y(y_), z(z_) {}
};

template <class T>
struct alignas(4 * sizeof(T)) HIP_vector_type<T, 4> {
  T x, y, z, w;
  HIP_vector_type() = default;
  explicit __hiprt_vec HIP_vector_type(T v) : x(v), y(v), z(v), w(v) {}
  __hiprt_vec HIP_vector_type(T x_, T y_, T z_, T w_) : x(x_), y(y_), z(z_), w(w_) {}
};

// The operators work element by element, and exist for each size.
#define __hiprt_binary(op)                                                                                               \
  template <class T>                                                                                                     \
  __hiprt_vec HIP_vector_type<T, 1> operator op(const HIP_vector_type<T, 1> &a, const HIP_vector_type<T, 1> &b) {        \
    return HIP_vector_type<T, 1>(T(a.x op b.x));                                                                         \
  }                                                                                                                      \
  template <class T>                                                                                                     \
  __hiprt_vec HIP_vector_type<T, 2> operator op(const HIP_vector_type<T, 2> &a, const HIP_vector_type<T, 2> &b) {        \
    return {T(a.x op b.x), T(a.y op b.y)};                                                                               \
  }                                                                                                                      \
  template <class T>                                                                                                     \
  __hiprt_vec HIP_vector_type<T, 3> operator op(const HIP_vector_type<T, 3> &a, const HIP_vector_type<T, 3> &b) {        \
    return {T(a.x op b.x), T(a.y op b.y), T(a.z op b.z)};                                                                \
  }                                                                                                                      \
  template <class T>                                                                                                     \
  __hiprt_vec HIP_vector_type<T, 4> operator op(const HIP_vector_type<T, 4> &a, const HIP_vector_type<T, 4> &b) {        \
    return {T(a.x op b.x), T(a.y op b.y), T(a.z op b.z), T(a.w op b.w)};                                                 \
  }                                                                                                                      \
  template <class T, unsigned n, class U, class = decltype(T(U()))>                                                      \
  __hiprt_vec HIP_vector_type<T, n> operator op(const HIP_vector_type<T, n> &a, U b) {                                   \
    return a op HIP_vector_type<T, n>(T(b));                                                                             \
  }                                                                                                                      \
  template <class T, unsigned n, class U, class = decltype(T(U()))>                                                      \
  __hiprt_vec HIP_vector_type<T, n> operator op(U a, const HIP_vector_type<T, n> &b) {                                   \
    return HIP_vector_type<T, n>(T(a)) op b;                                                                             \
  }                                                                                                                      \
  template <class T, unsigned n, class U>                                                                                \
  __hiprt_inline HIP_vector_type<T, n> &operator op##=(HIP_vector_type<T, n> &a, const U &b) {                           \
    return a = a op b;                                                                                                   \
  }

__hiprt_binary(+) __hiprt_binary(-) __hiprt_binary(*) __hiprt_binary(/) __hiprt_binary(%) __hiprt_binary(&)
__hiprt_binary(|) __hiprt_binary(^) __hiprt_binary(<<) __hiprt_binary(>>)
#undef __hiprt_binary

template <class T>
__hiprt_vec bool operator==(const HIP_vector_type<T, 1> &a, const HIP_vector_type<T, 1> &b) { return a.x == b.x; }
template <class T>
__hiprt_vec bool operator==(const HIP_vector_type<T, 2> &a, const HIP_vector_type<T, 2> &b) {
  return a.x == b.x && a.y == b.y;
}
template <class T>
__hiprt_vec bool operator==(const HIP_vector_type<T, 3> &a, const HIP_vector_type<T, 3> &b) {
  return a.x == b.x && a.y == b.y && a.z == b.z;
}
template <class T>
__hiprt_vec bool operator==(const HIP_vector_type<T, 4> &a, const HIP_vector_type<T, 4> &b) {
  return a.x == b.x && a.y == b.y && a.z == b.z && a.w == b.w;
}
template <class T, unsigned n, class U, class = decltype(T(U()))>
__hiprt_vec bool operator==(const HIP_vector_type<T, n> &a, U b) { return a == HIP_vector_type<T, n>(T(b)); }
template <class T, unsigned n, class U, class = decltype(T(U()))>
__hiprt_vec bool operator==(U a, const HIP_vector_type<T, n> &b) { return HIP_vector_type<T, n>(T(a)) == b; }
template <class T, unsigned n>
__hiprt_vec bool operator!=(const HIP_vector_type<T, n> &a, const HIP_vector_type<T, n> &b) { return !(a == b); }
template <class T, unsigned n, class U, class = decltype(T(U()))>
__hiprt_vec bool operator!=(const HIP_vector_type<T, n> &a, U b) { return !(a == b); }
template <class T, unsigned n, class U, class = decltype(T(U()))>
__hiprt_vec bool operator!=(U a, const HIP_vector_type<T, n> &b) { return !(a == b); }
#define __hiprt_step_by_one(op)                                                                          \
  template <class T, unsigned n>                                                                         \
  __hiprt_inline HIP_vector_type<T, n> &operator op##op(HIP_vector_type<T, n> &a) {                      \
    return a = a op HIP_vector_type<T, n>(T(1));                                                         \
  }                                                                                                      \
  template <class T, unsigned n>                                                                         \
  __hiprt_inline HIP_vector_type<T, n> operator op##op(HIP_vector_type<T, n> &a, int) {                  \
    const HIP_vector_type<T, n> before = a;                                                              \
    a = a op HIP_vector_type<T, n>(T(1));                                                                \
    return before;                                                                                       \
  }
__hiprt_step_by_one(+) __hiprt_step_by_one(-)
#undef __hiprt_step_by_one
template <class T, unsigned n>
__hiprt_vec HIP_vector_type<T, n> operator-(const HIP_vector_type<T, n> &a) { return HIP_vector_type<T, n>(T(0)) - a; }
template <class T, unsigned n>
__hiprt_vec HIP_vector_type<T, n> operator~(const HIP_vector_type<T, n> &a) { return a ^ HIP_vector_type<T, n>(T(-1)); }

#define __hiprt_vector_types(T, name)                                                                     \
  typedef HIP_vector_type<T, 1> name##1;                                                                  \
  typedef HIP_vector_type<T, 2> name##2;                                                                  \
  typedef HIP_vector_type<T, 3> name##3;                                                                  \
  typedef HIP_vector_type<T, 4> name##4;                                                                  \
  __hiprt_vec name##1 make_##name##1(T x) { return name##1(x); }                                          \
  __hiprt_vec name##2 make_##name##2(T x, T y) { return name##2(x, y); }                                  \
  __hiprt_vec name##3 make_##name##3(T x, T y, T z) { return name##3(x, y, z); }                          \
  __hiprt_vec name##4 make_##name##4(T x, T y, T z, T w) { return name##4(x, y, z, w); }

__hiprt_vector_types(char, char) __hiprt_vector_types(unsigned char, uchar)
__hiprt_vector_types(short, short) __hiprt_vector_types(unsigned short, ushort)
__hiprt_vector_types(int, int) __hiprt_vector_types(unsigned int, uint)
__hiprt_vector_types(long, long) __hiprt_vector_types(unsigned long, ulong)
__hiprt_vector_types(long long, longlong) __hiprt_vector_types(unsigned long long, ulonglong)
__hiprt_vector_types(float, float) __hiprt_vector_types(double, double)
#undef __hiprt_vector_types
#undef __hiprt_vec
