// Integer and bit intrinsics.
#pragma once
#pragma GCC system_header

#define __hiprt_int __hiprt_inline constexpr

__hiprt_int int __popc(unsigned x) { return __builtin_popcount(x); }
__hiprt_int int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
__hiprt_int int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
__hiprt_int int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
__hiprt_int int __ffs(int x) { return __builtin_ffs(x); }
__hiprt_int int __ffs(unsigned x) { return __builtin_ffs(int(x)); }
__hiprt_int int __ffsll(long long x) { return __builtin_ffsll(x); }
__hiprt_int int __ffsll(unsigned long long x) { return __builtin_ffsll((long long)x); }
__hiprt_int unsigned __brev(unsigned x) {
  x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
  x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
  x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
  return __builtin_bswap32(x);
}
__hiprt_int unsigned long long __brevll(unsigned long long x) {
  return (unsigned long long)__brev(unsigned(x)) << 32 | __brev(unsigned(x >> 32));
}
__hiprt_int int __mul24(int a, int b) { return int(unsigned(a << 8 >> 8) * unsigned(b << 8 >> 8)); }
__hiprt_int unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
__hiprt_int int __mulhi(int a, int b) { return int((long long)a * b >> 32); }
__hiprt_int unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)a * b >> 32); }
__hiprt_int long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
__hiprt_int unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
__hiprt_int int __hadd(int a, int b) { return int(((long long)a + b) >> 1); }
__hiprt_int unsigned __uhadd(unsigned a, unsigned b) { return unsigned(((unsigned long long)a + b) >> 1); }
__hiprt_int int __rhadd(int a, int b) { return int(((long long)a + b + 1) >> 1); }
__hiprt_int unsigned __urhadd(unsigned a, unsigned b) { return unsigned(((unsigned long long)a + b + 1) >> 1); }
__hiprt_int unsigned __sad(int a, int b, unsigned c) { return c + (a > b ? unsigned(a) - unsigned(b) : unsigned(b) - unsigned(a)); }
__hiprt_int unsigned __usad(unsigned a, unsigned b, unsigned c) { return c + (a > b ? a - b : b - a); }
__hiprt_int unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return unsigned(((unsigned long long)high << 32 | low) << (shift & 31) >> 32);
}
__hiprt_int unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return unsigned(((unsigned long long)high << 32 | low) >> (shift & 31));
}
__hiprt_int unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const unsigned long long bytes = (unsigned long long)b << 32 | a;
  unsigned out = 0;
  for (int i = 0; i < 4; ++i) out |= unsigned(bytes >> (selector >> 4 * i & 7) * 8 & 255) << 8 * i;
  return out;
}
__hiprt_int unsigned __bitextract_u32(unsigned x, unsigned offset, unsigned width) {
  offset &= 31, width &= 31;
  return width ? (x << (offset + width > 32 ? 0 : 32 - offset - width)) >> (offset + width > 32 ? offset : 32 - width) : 0;
}
// These multiply the four signed (or unsigned) bytes of a and b in pairs and add the products to c.
__hiprt_int int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; ++i) c += int((signed char)(a >> 8 * i)) * int((signed char)(b >> 8 * i));
  return c;
}
__hiprt_int unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 4; ++i) c += (a >> 8 * i & 255) * (b >> 8 * i & 255);
  return c;
}

template <class To, class From>
__hiprt_inline To __hiprt_bits(const From &from) {
  static_assert(sizeof(To) == sizeof(From), "same size");
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}
__hiprt_inline int __float_as_int(float x) { return __hiprt_bits<int>(x); }
__hiprt_inline unsigned __float_as_uint(float x) { return __hiprt_bits<unsigned>(x); }
__hiprt_inline float __int_as_float(int x) { return __hiprt_bits<float>(x); }
__hiprt_inline float __uint_as_float(unsigned x) { return __hiprt_bits<float>(x); }
__hiprt_inline long long __double_as_longlong(double x) { return __hiprt_bits<long long>(x); }
__hiprt_inline double __longlong_as_double(long long x) { return __hiprt_bits<double>(x); }
__hiprt_inline int __double2hiint(double x) { return int(__double_as_longlong(x) >> 32); }
__hiprt_inline int __double2loint(double x) { return int(__double_as_longlong(x)); }
__hiprt_inline double __hiloint2double(int high, int low) {
  return __longlong_as_double((long long)high << 32 | (long long)unsigned(low));
}

#define __hiprt_min_max(T)                                       \
  __hiprt_int T min(T a, T b) { return b < a ? b : a; }          \
  __hiprt_int T max(T a, T b) { return a < b ? b : a; }
__hiprt_min_max(int) __hiprt_min_max(unsigned) __hiprt_min_max(long) __hiprt_min_max(unsigned long)
__hiprt_min_max(long long) __hiprt_min_max(unsigned long long)
#undef __hiprt_min_max
// Mixed operands take their common type, as in HIP.
__hiprt_int unsigned min(int a, unsigned b) { return min(unsigned(a), b); }
__hiprt_int unsigned min(unsigned a, int b) { return min(a, unsigned(b)); }
__hiprt_int unsigned max(int a, unsigned b) { return max(unsigned(a), b); }
__hiprt_int unsigned max(unsigned a, int b) { return max(a, unsigned(b)); }
__hiprt_int unsigned umin(unsigned a, unsigned b) { return min(a, b); }
__hiprt_int unsigned umax(unsigned a, unsigned b) { return max(a, b); }
__hiprt_libc constexpr int abs(int x) { return x < 0 ? -x : x; }
__hiprt_libc constexpr long abs(long x) { return x < 0 ? -x : x; }
__hiprt_libc constexpr long long abs(long long x) { return x < 0 ? -x : x; }
__hiprt_libc constexpr long labs(long x) { return abs(x); }
__hiprt_libc constexpr long long llabs(long long x) { return abs(x); }
#undef __hiprt_int
