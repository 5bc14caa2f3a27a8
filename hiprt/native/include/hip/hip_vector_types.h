/* Short vectors for host programs: laid out as device code has them, without its arithmetic. */
#ifndef HIPRT_HIP_VECTOR_TYPES_H
#define HIPRT_HIP_VECTOR_TYPES_H

#define HIPRT_ALIGNED(bytes) __attribute__((aligned(bytes)))

#define HIPRT_VECTOR(T, name)                                       \
  typedef struct name##1 {                                          \
    T x;                                                            \
  } name##1;                                                        \
  typedef struct HIPRT_ALIGNED(2 * sizeof(T)) name##2 {             \
    T x, y;                                                         \
  } name##2;                                                        \
  typedef struct name##3 {                                          \
    T x, y, z;                                                      \
  } name##3;                                                        \
  typedef struct HIPRT_ALIGNED(4 * sizeof(T)) name##4 {             \
    T x, y, z, w;                                                   \
  } name##4;                                                        \
  static inline name##1 make_##name##1(T x) {                       \
    const name##1 v = {x};                                          \
    return v;                                                       \
  }                                                                 \
  static inline name##2 make_##name##2(T x, T y) {                  \
    const name##2 v = {x, y};                                       \
    return v;                                                       \
  }                                                                 \
  static inline name##3 make_##name##3(T x, T y, T z) {             \
    const name##3 v = {x, y, z};                                    \
    return v;                                                       \
  }                                                                 \
  static inline name##4 make_##name##4(T x, T y, T z, T w) {        \
    const name##4 v = {x, y, z, w};                                 \
    return v;                                                       \
  }

HIPRT_VECTOR(signed char, char)
HIPRT_VECTOR(unsigned char, uchar)
HIPRT_VECTOR(short, short)
HIPRT_VECTOR(unsigned short, ushort)
HIPRT_VECTOR(int, int)
HIPRT_VECTOR(unsigned int, uint)
HIPRT_VECTOR(long, long)
HIPRT_VECTOR(unsigned long, ulong)
HIPRT_VECTOR(long long, longlong)
HIPRT_VECTOR(unsigned long long, ulonglong)
HIPRT_VECTOR(float, float)
HIPRT_VECTOR(double, double)

#undef HIPRT_VECTOR

#endif
