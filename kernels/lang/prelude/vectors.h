// Vectors of 2, 3 and 4 elements. A swizzle is a member that lies on top of its vector and converts to one of its own; the
// program says which it needs: HIPRT_SWIZZLES_N(X) expands X(name, places...) for vectors of N elements.
#ifndef HIPRT_SWIZZLES_2
#define HIPRT_SWIZZLES_2(X)
#define HIPRT_SWIZZLES_3(X)
#define HIPRT_SWIZZLES_4(X)
#endif

namespace metal {

template <typename T, int N>
struct vec;

namespace hiprt {

template <typename V>
struct width_of {
  static constexpr int value = 1;
};
template <typename T, int N>
struct width_of<vec<T, N>> {
  static constexpr int value = N;
};

// V is the vector that the swizzle stands for, N the elements of the one it lies on.
template <typename V, typename T, int N, int... I>
struct swizzle {
  T at[N];
  HIPRT_INLINE V get() const { return V(at[I]...); }
  HIPRT_INLINE operator V() const { return get(); }
  HIPRT_INLINE swizzle& operator=(V v) {
    int from = 0;
    int done[] = {(at[I] = v.at[from++], 0)...};
    (void)done;
    return *this;
  }
  HIPRT_INLINE swizzle& operator=(const swizzle& v) { return *this = v.get(); }
  HIPRT_INLINE swizzle& operator+=(V v) { return *this = get() + v; }
  HIPRT_INLINE swizzle& operator-=(V v) { return *this = get() - v; }
  HIPRT_INLINE swizzle& operator*=(V v) { return *this = get() * v; }
  HIPRT_INLINE swizzle& operator/=(V v) { return *this = get() / v; }
};
template <typename V, typename T, int N, int... I>
struct width_of<swizzle<V, T, N, I...>> {
  static constexpr int value = sizeof...(I);
};

}  // namespace hiprt

#define HIPRT_SWIZZLE(name, ...) hiprt::swizzle<vec<T, hiprt::places<__VA_ARGS__>::count>, T, WIDTH, __VA_ARGS__> name;
namespace hiprt {
template <int... I>
struct places {
  static constexpr int count = sizeof...(I);
};
}  // namespace hiprt

#define HIPRT_VECTOR_OPERATOR(op)                                                              \
  friend HIPRT_INLINE vec operator op(vec a, vec b) {                                          \
    for (int i = 0; i < WIDTH; i++) a.at[i] = T(a.at[i] op b.at[i]);                           \
    return a;                                                                                  \
  }                                                                                            \
  HIPRT_INLINE vec& operator op##=(vec b) { return *this = *this op b; }
#define HIPRT_VECTOR_COMPARISON(op)                                                            \
  friend HIPRT_INLINE vec<bool, WIDTH> operator op(vec a, vec b) {                             \
    vec<bool, WIDTH> result;                                                                   \
    for (int i = 0; i < WIDTH; i++) result.at[i] = a.at[i] op b.at[i];                         \
    return result;                                                                             \
  }
// Bit operations exist where the elements have them, because friends are instantiated only when they are called.
#define HIPRT_VECTOR(N, ALIGNED, XYZW, RGBA, SWIZZLES)                                         \
  template <typename T>                                                                        \
  struct alignas(ALIGNED * sizeof(T)) vec<T, N> {                                              \
    static constexpr int WIDTH = N;                                                            \
    typedef T element;                                                                         \
    union {                                                                                    \
      T at[N];                                                                                 \
      struct {                                                                                 \
        T XYZW;                                                                                \
      };                                                                                       \
      struct {                                                                                 \
        T RGBA;                                                                                \
      };                                                                                       \
      SWIZZLES(HIPRT_SWIZZLE)                                                                  \
    };                                                                                         \
    vec() = default;                                                                           \
    vec(const vec&) = default;                                                                 \
    HIPRT_FROM_CONSTANT_MORE(vec, for (int i = 0; i < N; i++) at[i] = other.at[i])             \
    HIPRT_INLINE constexpr vec(T v) : at{} {                                                   \
      for (int i = 0; i < N; i++) at[i] = v;                                                   \
    }                                                                                          \
    template <typename U>                                                                      \
    HIPRT_INLINE constexpr explicit vec(const vec<U, N>& v) : at{} {                           \
      for (int i = 0; i < N; i++) at[i] = T(v.at[i]);                                          \
    }                                                                                          \
    template <typename V, typename U, int M, int... I>                                         \
    HIPRT_INLINE constexpr explicit vec(const hiprt::swizzle<V, U, M, I...>& v) : vec(v.get()) {} \
    template <typename A, typename B, typename... R>                                           \
    HIPRT_INLINE constexpr vec(const A& a, const B& b, const R&... rest) : at{} {              \
      int end = 0;                                                                             \
      put(end, a);                                                                             \
      put(end, b);                                                                             \
      int done[] = {0, (put(end, rest), 0)...};                                                \
      (void)done;                                                                              \
      static_assert(hiprt::total<A, B, R...>::value == N, "a vector takes as many elements as it has"); \
    }                                                                                          \
    HIPRT_INLINE vec& operator=(const vec& v) {                                                \
      for (int i = 0; i < N; i++) at[i] = v.at[i];                                             \
      return *this;                                                                            \
    }                                                                                          \
    HIPRT_INLINE T& operator[](int i) { return at[i]; }                                        \
    HIPRT_INLINE const T& operator[](int i) const { return at[i]; }                            \
    HIPRT_VECTOR_OPERATOR(+) HIPRT_VECTOR_OPERATOR(-) HIPRT_VECTOR_OPERATOR(*) HIPRT_VECTOR_OPERATOR(/) \
    HIPRT_VECTOR_OPERATOR(%) HIPRT_VECTOR_OPERATOR(&) HIPRT_VECTOR_OPERATOR(|) HIPRT_VECTOR_OPERATOR(^) \
    HIPRT_VECTOR_OPERATOR(<<) HIPRT_VECTOR_OPERATOR(>>)                                        \
    HIPRT_VECTOR_COMPARISON(==) HIPRT_VECTOR_COMPARISON(!=) HIPRT_VECTOR_COMPARISON(<)         \
    HIPRT_VECTOR_COMPARISON(>) HIPRT_VECTOR_COMPARISON(<=) HIPRT_VECTOR_COMPARISON(>=)         \
    HIPRT_VECTOR_COMPARISON(&&) HIPRT_VECTOR_COMPARISON(||)                                    \
    friend HIPRT_INLINE vec operator-(vec a) {                                                 \
      for (int i = 0; i < N; i++) a.at[i] = T(-a.at[i]);                                       \
      return a;                                                                                \
    }                                                                                          \
    friend HIPRT_INLINE vec operator~(vec a) {                                                 \
      for (int i = 0; i < N; i++) a.at[i] = T(~a.at[i]);                                       \
      return a;                                                                                \
    }                                                                                          \
    friend HIPRT_INLINE vec<bool, N> operator!(vec a) {                                        \
      vec<bool, N> result;                                                                     \
      for (int i = 0; i < N; i++) result.at[i] = !a.at[i];                                     \
      return result;                                                                           \
    }                                                                                          \
                                                                                               \
   private:                                                                                    \
    template <typename A>                                                                      \
    HIPRT_INLINE constexpr void put(int& end, const A& value) {                                \
      at[end++] = T(value);                                                                    \
    }                                                                                          \
    template <typename U, int M>                                                               \
    HIPRT_INLINE constexpr void put(int& end, const vec<U, M>& v) {                            \
      for (int i = 0; i < M; i++) at[end++] = T(v.at[i]);                                      \
    }                                                                                          \
    template <typename V, typename U, int M, int... I>                                         \
    HIPRT_INLINE constexpr void put(int& end, const hiprt::swizzle<V, U, M, I...>& v) {        \
      put(end, v.get());                                                                       \
    }                                                                                          \
  };

namespace hiprt {
template <typename... A>
struct total {
  static constexpr int value = 0;
};
template <typename A, typename... R>
struct total<A, R...> {
  static constexpr int value = width_of<A>::value + total<R...>::value;
};
}  // namespace hiprt

#define HIPRT_XY x, y
#define HIPRT_XYZ x, y, z
#define HIPRT_XYZW x, y, z, w
#define HIPRT_RG r, g
#define HIPRT_RGB r, g, b
#define HIPRT_RGBA r, g, b, a
HIPRT_VECTOR(2, 2, HIPRT_XY, HIPRT_RG, HIPRT_SWIZZLES_2)
HIPRT_VECTOR(3, 4, HIPRT_XYZ, HIPRT_RGB, HIPRT_SWIZZLES_3)
HIPRT_VECTOR(4, 4, HIPRT_XYZW, HIPRT_RGBA, HIPRT_SWIZZLES_4)

// The same without padding, for memory.
template <typename T, int N>
struct packed_vec {
  T at[N];
  packed_vec() = default;
  HIPRT_FROM_CONSTANT(packed_vec, for (int i = 0; i < N; i++) at[i] = other.at[i])
  HIPRT_INLINE packed_vec(vec<T, N> v) {
    for (int i = 0; i < N; i++) at[i] = v.at[i];
  }
  HIPRT_INLINE operator vec<T, N>() const {
    vec<T, N> v;
    for (int i = 0; i < N; i++) v.at[i] = at[i];
    return v;
  }
  HIPRT_INLINE T& operator[](int i) { return at[i]; }
  HIPRT_INLINE const T& operator[](int i) const { return at[i]; }
};

#define HIPRT_NAMED(scalar, name)                                                          \
  typedef vec<scalar, 2> name##2;                                                          \
  typedef vec<scalar, 3> name##3;                                                          \
  typedef vec<scalar, 4> name##4;                                                          \
  typedef packed_vec<scalar, 2> packed_##name##2;                                          \
  typedef packed_vec<scalar, 3> packed_##name##3;                                          \
  typedef packed_vec<scalar, 4> packed_##name##4;
HIPRT_NAMED(bool, bool) HIPRT_NAMED(char, char) HIPRT_NAMED(uchar, uchar) HIPRT_NAMED(short, short)
HIPRT_NAMED(ushort, ushort) HIPRT_NAMED(int, int) HIPRT_NAMED(uint, uint) HIPRT_NAMED(long, long)
HIPRT_NAMED(ulong, ulong) HIPRT_NAMED(half, half) HIPRT_NAMED(bfloat16_t, bfloat) HIPRT_NAMED(float, float)
#undef HIPRT_NAMED

template <int N>
HIPRT_INLINE bool any(vec<bool, N> v) {
  for (int i = 0; i < N; i++)
    if (v.at[i]) return true;
  return false;
}
template <int N>
HIPRT_INLINE bool all(vec<bool, N> v) {
  for (int i = 0; i < N; i++)
    if (!v.at[i]) return false;
  return true;
}
HIPRT_INLINE bool any(bool v) { return v; }
HIPRT_INLINE bool all(bool v) { return v; }

}  // namespace metal
