// hip_bfloat16: the older type, a plain structure around the bits.
#pragma once
#pragma GCC system_header

#include "hip/hip_bf16.h"

struct hip_bfloat16 {
  unsigned short data;
  enum truncate_t { truncate };
  hip_bfloat16() = default;
  __hiprt_inline explicit hip_bfloat16(float v) : data(__hiprt_bf16_bits(v)) {}
  __hiprt_inline explicit hip_bfloat16(float v, truncate_t) : data((unsigned short)(__float_as_uint(v) >> 16)) {}
  __hiprt_inline operator float() const { return __hiprt_bf16_value(data); }
  __hiprt_inline hip_bfloat16 &operator=(float v) { return *this = hip_bfloat16(v); }
  static __hiprt_inline hip_bfloat16 round_to_bfloat16(float v) { return hip_bfloat16(v); }
  static __hiprt_inline hip_bfloat16 round_to_bfloat16(float v, truncate_t) { return hip_bfloat16(v, truncate); }
};

#define __hiprt_bf_binary(op)                                                                        \
  __hiprt_inline hip_bfloat16 operator op(hip_bfloat16 a, hip_bfloat16 b) {                          \
    return hip_bfloat16(float(a) op float(b));                                                       \
  }                                                                                                  \
  __hiprt_inline hip_bfloat16 &operator op##=(hip_bfloat16 &a, hip_bfloat16 b) { return a = a op b; }
__hiprt_bf_binary(+) __hiprt_bf_binary(-) __hiprt_bf_binary(*) __hiprt_bf_binary(/)
#undef __hiprt_bf_binary
#define __hiprt_bf_compare(op) \
  __hiprt_inline bool operator op(hip_bfloat16 a, hip_bfloat16 b) { return float(a) op float(b); }
__hiprt_bf_compare(==) __hiprt_bf_compare(!=) __hiprt_bf_compare(<) __hiprt_bf_compare(<=) __hiprt_bf_compare(>)
__hiprt_bf_compare(>=)
#undef __hiprt_bf_compare
__hiprt_inline hip_bfloat16 operator+(hip_bfloat16 b) { return b; }
__hiprt_inline hip_bfloat16 operator-(hip_bfloat16 b) {
  b.data ^= 0x8000;
  return b;
}
#define __hiprt_bf_step(op)                                                                          \
  __hiprt_inline hip_bfloat16 &operator op##op(hip_bfloat16 &a) { return a = a op hip_bfloat16(1); } \
  __hiprt_inline hip_bfloat16 operator op##op(hip_bfloat16 &a, int) {                                \
    const hip_bfloat16 before = a;                                                                   \
    a = a op hip_bfloat16(1);                                                                        \
    return before;                                                                                   \
  }
__hiprt_bf_step(+) __hiprt_bf_step(-)
#undef __hiprt_bf_step

namespace std {
__hiprt_inline bool isinf(hip_bfloat16 b) { return (b.data & 0x7fff) == 0x7f80; }
__hiprt_inline bool isnan(hip_bfloat16 b) { return (b.data & 0x7fff) > 0x7f80; }
__hiprt_inline bool iszero(hip_bfloat16 b) { return (b.data & 0x7fff) == 0; }
}  // namespace std
