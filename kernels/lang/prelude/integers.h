// metal:: functions of integers.
namespace metal {

namespace hiprt {
#if HIPRT_TARGET_NVIDIA && !defined(__clang__)
HIPRT_INLINE uint ones(ulong x) { return uint(__popcll(x)); }
HIPRT_INLINE uint leading_zeros(ulong x) { return uint(__clzll((long long)x)); }
#else
HIPRT_INLINE uint ones(ulong x) { return uint(__builtin_popcountll(x)); }
HIPRT_INLINE uint leading_zeros(ulong x) { return x ? uint(__builtin_clzll(x)) : 64u; }
#endif
}  // namespace hiprt

#define HIPRT_COUNTS(T, U)                                                                     \
  HIPRT_INLINE T popcount(T x) { return T(hiprt::ones(U(x))); }                                \
  HIPRT_INLINE T clz(T x) { return T(hiprt::leading_zeros(U(x)) - (64 - sizeof(T) * 8)); }     \
  HIPRT_INLINE T ctz(T x) { return T(hiprt::ones(U(U(U(x) & U(-U(x))) - 1))); }                \
  HIPRT_INLINE T reverse_bits(T x) {                                                           \
    U result = 0;                                                                              \
    for (uint i = 0; i < sizeof(T) * 8; i++) result = U(result << 1 | (U(x) >> i & 1));        \
    return T(result);                                                                          \
  }                                                                                            \
  HIPRT_INLINE T rotate(T x, T by) {                                                           \
    uint n = uint(by) & (sizeof(T) * 8 - 1);                                                   \
    return T(U(U(x) << n) | U(U(x) >> ((sizeof(T) * 8 - n) & (sizeof(T) * 8 - 1))));           \
  }                                                                                            \
  HIPRT_INLINE U absdiff(T a, T b) { return a < b ? U(U(b) - U(a)) : U(U(a) - U(b)); }         \
  HIPRT_INLINE T extract_bits(T x, uint offset, uint bits) {                                   \
    if (bits == 0) return 0;                                                                   \
    uint above = uint(sizeof(T) * 8) - offset - bits;                                          \
    return T(T(U(x) << above) >> (above + offset));                                            \
  }                                                                                            \
  HIPRT_INLINE T insert_bits(T base, T insert, uint offset, uint bits) {                       \
    U mask = U((bits >= sizeof(T) * 8 ? U(~U(0)) : U((U(1) << bits) - 1)) << offset);          \
    return T((U(base) & U(~mask)) | (U(U(insert) << offset) & mask));                          \
  }                                                                                            \
  HIPRT_INLINE T hadd(T a, T b) { return T((a >> 1) + (b >> 1) + (a & b & 1)); }               \
  HIPRT_INLINE T rhadd(T a, T b) { return T((a >> 1) + (b >> 1) + ((a | b) & 1)); }
HIPRT_COUNTS(char, uchar) HIPRT_COUNTS(int8_t, uchar) HIPRT_COUNTS(uchar, uchar) HIPRT_COUNTS(short, ushort)
HIPRT_COUNTS(ushort, ushort) HIPRT_COUNTS(int, uint) HIPRT_COUNTS(uint, uint) HIPRT_COUNTS(long, ulong)
HIPRT_COUNTS(ulong, ulong)
#undef HIPRT_COUNTS

// Products and sums are exact in W. These return the upper half of a product, and results clamped to the type's bounds.
#define HIPRT_WITHIN(T, W, low, high)                                                                \
  HIPRT_INLINE T addsat(T a, T b) { return T(clamp(long(a) + long(b), long(low), long(high))); }     \
  HIPRT_INLINE T subsat(T a, T b) { return T(clamp(long(a) - long(b), long(low), long(high))); }     \
  HIPRT_INLINE T madsat(T a, T b, T c) { return T(clamp(W(a) * W(b) + W(c), W(low), W(high))); }     \
  HIPRT_INLINE T mulhi(T a, T b) { return T(W(a) * W(b) >> (sizeof(T) * 8)); }
HIPRT_WITHIN(char, long, -128, 127) HIPRT_WITHIN(int8_t, long, -128, 127) HIPRT_WITHIN(uchar, ulong, 0, 255)
HIPRT_WITHIN(short, long, -32768, 32767) HIPRT_WITHIN(ushort, ulong, 0, 65535)
HIPRT_WITHIN(int, long, -2147483647 - 1, 2147483647)
#undef HIPRT_WITHIN
HIPRT_INLINE uint addsat(uint a, uint b) { return uint(min(ulong(a) + b, ulong(~0u))); }
HIPRT_INLINE uint subsat(uint a, uint b) { return a < b ? 0 : a - b; }
HIPRT_INLINE uint madsat(uint a, uint b, uint c) { return uint(min(ulong(a) * b + c, ulong(~0u))); }

// For 64 bits the same follows from products of halves and from the carry of a sum.
HIPRT_INLINE ulong mulhi(ulong a, ulong b) {
  ulong low = 0xffffffffu, one = (a >> 32) * (b & low), two = (a & low) * (b >> 32);
  ulong carried = ((a & low) * (b & low) >> 32) + (one & low) + (two & low);
  return (a >> 32) * (b >> 32) + (one >> 32) + (two >> 32) + (carried >> 32);
}
HIPRT_INLINE long mulhi(long a, long b) {
  return long(mulhi(ulong(a), ulong(b)) - (a < 0 ? ulong(b) : 0) - (b < 0 ? ulong(a) : 0));
}
HIPRT_INLINE ulong addsat(ulong a, ulong b) { return a + b < a ? ~0ul : a + b; }
HIPRT_INLINE ulong subsat(ulong a, ulong b) { return a < b ? 0 : a - b; }
HIPRT_INLINE ulong madsat(ulong a, ulong b, ulong c) { return mulhi(a, b) != 0 ? ~0ul : addsat(a * b, c); }
namespace hiprt {
HIPRT_INLINE long bound(bool negative) { return long((~0ul >> 1) + ulong(negative)); }
}  // namespace hiprt
#define HIPRT_WRAPPED(a, op, b) long(ulong(a) op ulong(b))
HIPRT_INLINE long addsat(long a, long b) {
  long sum = HIPRT_WRAPPED(a, +, b);
  return ((a ^ sum) & (b ^ sum)) < 0 ? hiprt::bound(a < 0) : sum;
}
HIPRT_INLINE long subsat(long a, long b) {
  long difference = HIPRT_WRAPPED(a, -, b);
  return ((a ^ b) & (a ^ difference)) < 0 ? hiprt::bound(a < 0) : difference;
}
HIPRT_INLINE long madsat(long a, long b, long c) {
  long low = HIPRT_WRAPPED(a, *, b), sum = HIPRT_WRAPPED(low, +, c);
  long high = mulhi(a, b) + (c < 0 ? -1 : 0) + (ulong(sum) < ulong(low) ? 1 : 0);
  return high == (sum < 0 ? -1 : 0) ? sum : hiprt::bound(high < 0);
}
#undef HIPRT_WRAPPED

HIPRT_INLINE char abs(char x) { return char(x < 0 ? -x : x); }
HIPRT_INLINE int8_t abs(int8_t x) { return int8_t(x < 0 ? -x : x); }
HIPRT_INLINE uchar abs(uchar x) { return x; }
HIPRT_INLINE ushort abs(ushort x) { return x; }
HIPRT_INLINE short abs(short x) { return short(x < 0 ? -x : x); }
HIPRT_INLINE long abs(long x) { return x < 0 ? -x : x; }
HIPRT_INLINE uint abs(uint x) { return x; }
HIPRT_INLINE ulong abs(ulong x) { return x; }
HIPRT_INLINE int mul24(int a, int b) { return int(uint(a << 8 >> 8) * uint(b << 8 >> 8)); }
HIPRT_INLINE uint mul24(uint a, uint b) { return (a & 0xffffffu) * (b & 0xffffffu); }
HIPRT_INLINE int mad24(int a, int b, int c) { return int(uint(mul24(a, b)) + uint(c)); }
HIPRT_INLINE uint mad24(uint a, uint b, uint c) { return mul24(a, b) + c; }
#define HIPRT_MADHI(T, U) \
  HIPRT_INLINE T madhi(T a, T b, T c) { return T(U(mulhi(a, b)) + U(c)); }
HIPRT_MADHI(char, uchar) HIPRT_MADHI(int8_t, uchar) HIPRT_MADHI(uchar, uchar) HIPRT_MADHI(short, ushort)
HIPRT_MADHI(ushort, ushort) HIPRT_MADHI(int, uint) HIPRT_MADHI(uint, uint) HIPRT_MADHI(long, ulong)
HIPRT_MADHI(ulong, ulong)
#undef HIPRT_MADHI

#define HIPRT_THREE(T)                                                                         \
  HIPRT_INLINE T min3(T a, T b, T c) { return min(a, min(b, c)); }                             \
  HIPRT_INLINE T max3(T a, T b, T c) { return max(a, max(b, c)); }                             \
  HIPRT_INLINE T median3(T a, T b, T c) { return max(min(a, b), min(max(a, b), c)); }
HIPRT_THREE(char) HIPRT_THREE(int8_t) HIPRT_THREE(uchar) HIPRT_THREE(short) HIPRT_THREE(ushort) HIPRT_THREE(int) HIPRT_THREE(uint) HIPRT_THREE(long) HIPRT_THREE(ulong)
HIPRT_THREE(half) HIPRT_THREE(float) HIPRT_THREE(bfloat16_t)
#undef HIPRT_THREE

// Functions of vectors work element by element. An argument may be a swizzle, or one number for all elements.
namespace hiprt {
template <typename... A>
struct first_vector {
  typedef void type;
};
template <typename A, typename... R>
struct first_vector<A, R...> : first_vector<R...> {};
template <typename T, int N, typename... R>
struct first_vector<vec<T, N>, R...> {
  typedef vec<T, N> type;
};
template <typename V, typename T, int N, int... I, typename... R>
struct first_vector<swizzle<V, T, N, I...>, R...> {
  typedef V type;
};
template <typename V>
struct of_integers {};
template <typename T, int N>
struct of_integers<vec<T, N>> : only_if<number<T>::kind == 1, vec<T, N>> {};
}  // namespace hiprt
#define HIPRT_OF_INTEGERS typename V = typename hiprt::of_integers<typename hiprt::first_vector<A...>::type>::type

#define HIPRT_EACH(name)                                                                              \
  template <typename... A, HIPRT_OF_INTEGERS, typename E = decltype(name(V(A()).at[0]...))>           \
  HIPRT_INLINE vec<E, V::WIDTH> name(A... of) {                                                       \
    vec<E, V::WIDTH> result;                                                                          \
    for (int i = 0; i < V::WIDTH; i++) result.at[i] = name(V(of).at[i]...);                           \
    return result;                                                                                    \
  }
HIPRT_EACH(popcount) HIPRT_EACH(clz) HIPRT_EACH(ctz) HIPRT_EACH(reverse_bits) HIPRT_EACH(abs) HIPRT_EACH(rotate)
HIPRT_EACH(absdiff) HIPRT_EACH(hadd) HIPRT_EACH(rhadd) HIPRT_EACH(addsat) HIPRT_EACH(subsat) HIPRT_EACH(mulhi)
HIPRT_EACH(mul24) HIPRT_EACH(mad24) HIPRT_EACH(madhi) HIPRT_EACH(madsat) HIPRT_EACH(min) HIPRT_EACH(max)
HIPRT_EACH(clamp) HIPRT_EACH(min3) HIPRT_EACH(max3) HIPRT_EACH(median3)
#undef HIPRT_EACH
#undef HIPRT_OF_INTEGERS
#define HIPRT_OF_INTEGERS(...) typename V = typename hiprt::of_integers<typename hiprt::first_vector<__VA_ARGS__>::type>::type
template <typename A, HIPRT_OF_INTEGERS(A)>
HIPRT_INLINE V extract_bits(A from, uint offset, uint bits) {
  V result = V(from);
  for (int i = 0; i < V::WIDTH; i++) result.at[i] = extract_bits(result.at[i], offset, bits);
  return result;
}
template <typename A, typename B, HIPRT_OF_INTEGERS(A, B)>
HIPRT_INLINE V insert_bits(A base, B insert, uint offset, uint bits) {
  V result = V(base), put = V(insert);
  for (int i = 0; i < V::WIDTH; i++) result.at[i] = insert_bits(result.at[i], put.at[i], offset, bits);
  return result;
}
template <typename A, typename B, HIPRT_OF_INTEGERS(A, B)>
HIPRT_INLINE V select(A no, B yes, vec<bool, V::WIDTH> condition) {
  V result = V(no), other = V(yes);
  for (int i = 0; i < V::WIDTH; i++) result.at[i] = condition.at[i] ? other.at[i] : result.at[i];
  return result;
}
#undef HIPRT_OF_INTEGERS

}  // namespace metal
