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

#define HIPRT_SATURATING(T, low, high)                                                         \
  HIPRT_INLINE T addsat(T a, T b) {                                                            \
    long sum = long(a) + long(b);                                                              \
    return T(sum < long(low) ? long(low) : sum > long(high) ? long(high) : sum);               \
  }                                                                                            \
  HIPRT_INLINE T subsat(T a, T b) {                                                            \
    long difference = long(a) - long(b);                                                       \
    return T(difference < long(low) ? long(low) : difference > long(high) ? long(high) : difference); \
  }
HIPRT_SATURATING(int8_t, -128, 127) HIPRT_SATURATING(uchar, 0, 255) HIPRT_SATURATING(short, -32768, 32767)
HIPRT_SATURATING(ushort, 0, 65535) HIPRT_SATURATING(int, -2147483647 - 1, 2147483647)
HIPRT_SATURATING(uint, 0, 4294967295u)
#undef HIPRT_SATURATING

HIPRT_INLINE short abs(short x) { return short(x < 0 ? -x : x); }
HIPRT_INLINE long abs(long x) { return x < 0 ? -x : x; }
HIPRT_INLINE uint abs(uint x) { return x; }
HIPRT_INLINE ulong abs(ulong x) { return x; }
HIPRT_INLINE int mulhi(int a, int b) { return int((long(a) * b) >> 32); }
HIPRT_INLINE int mul24(int a, int b) { return int(uint(a << 8 >> 8) * uint(b << 8 >> 8)); }
HIPRT_INLINE uint mul24(uint a, uint b) { return (a & 0xffffffu) * (b & 0xffffffu); }
HIPRT_INLINE int mad24(int a, int b, int c) { return int(uint(mul24(a, b)) + uint(c)); }
HIPRT_INLINE uint mad24(uint a, uint b, uint c) { return mul24(a, b) + c; }
HIPRT_INLINE uint madhi(uint a, uint b, uint c) { return mulhi(a, b) + c; }
HIPRT_INLINE int madhi(int a, int b, int c) { return int(uint(mulhi(a, b)) + uint(c)); }

#define HIPRT_THREE(T)                                                                         \
  HIPRT_INLINE T min3(T a, T b, T c) { return min(a, min(b, c)); }                             \
  HIPRT_INLINE T max3(T a, T b, T c) { return max(a, max(b, c)); }                             \
  HIPRT_INLINE T median3(T a, T b, T c) { return max(min(a, b), min(max(a, b), c)); }
HIPRT_THREE(short) HIPRT_THREE(ushort) HIPRT_THREE(int) HIPRT_THREE(uint) HIPRT_THREE(long) HIPRT_THREE(ulong)
HIPRT_THREE(half) HIPRT_THREE(float) HIPRT_THREE(bfloat16_t)
#undef HIPRT_THREE

}  // namespace metal
