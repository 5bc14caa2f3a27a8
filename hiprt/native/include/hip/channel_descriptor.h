/* What an element of an array is made of: hipCreateChannelDesc by bits, and in C++ by the type of an element. */
#ifndef HIPRT_CHANNEL_DESCRIPTOR_H
#define HIPRT_CHANNEL_DESCRIPTOR_H

#include "hip/driver_types.h"
#include "hip/hip_vector_types.h"

static inline hipChannelFormatDesc hiprt_channel_desc(int x, int y, int z, int w, hipChannelFormatKind f) {
  hipChannelFormatDesc desc;
  desc.x = x;
  desc.y = y;
  desc.z = z;
  desc.w = w;
  desc.f = f;
  return desc;
}

#ifdef __cplusplus
static inline hipChannelFormatDesc hipCreateChannelDesc(int x, int y, int z, int w, hipChannelFormatKind f) {
  return hiprt_channel_desc(x, y, z, w, f);
}
template <typename T>
static inline hipChannelFormatDesc hipCreateChannelDesc() {
  return hiprt_channel_desc(0, 0, 0, 0, hipChannelFormatKindNone);
}

#define HIPRT_CHANNELS(type, kind, x, y, z, w)                  \
  template <>                                                   \
  inline hipChannelFormatDesc hipCreateChannelDesc<type>() {    \
    const int bits = 8 * (int)sizeof(type) / (1 + y + z + w);   \
    return hiprt_channel_desc(bits, y *bits, z *bits, w *bits, kind); \
  }
#define HIPRT_CHANNEL_TYPES(scalar, vector, kind) \
  HIPRT_CHANNELS(scalar, kind, 1, 0, 0, 0)        \
  HIPRT_CHANNELS(vector##1, kind, 1, 0, 0, 0)     \
  HIPRT_CHANNELS(vector##2, kind, 1, 1, 0, 0)     \
  HIPRT_CHANNELS(vector##4, kind, 1, 1, 1, 1)
HIPRT_CHANNEL_TYPES(signed char, char, hipChannelFormatKindSigned)
HIPRT_CHANNEL_TYPES(unsigned char, uchar, hipChannelFormatKindUnsigned)
HIPRT_CHANNEL_TYPES(short, short, hipChannelFormatKindSigned)
HIPRT_CHANNEL_TYPES(unsigned short, ushort, hipChannelFormatKindUnsigned)
HIPRT_CHANNEL_TYPES(int, int, hipChannelFormatKindSigned)
HIPRT_CHANNEL_TYPES(unsigned int, uint, hipChannelFormatKindUnsigned)
HIPRT_CHANNEL_TYPES(long, long, hipChannelFormatKindSigned)
HIPRT_CHANNEL_TYPES(unsigned long, ulong, hipChannelFormatKindUnsigned)
HIPRT_CHANNEL_TYPES(float, float, hipChannelFormatKindFloat)
HIPRT_CHANNELS(char, hipChannelFormatKindSigned, 1, 0, 0, 0)
#undef HIPRT_CHANNEL_TYPES
#undef HIPRT_CHANNELS
#else
static inline hipChannelFormatDesc hipCreateChannelDesc(int x, int y, int z, int w, hipChannelFormatKind f) {
  return hiprt_channel_desc(x, y, z, w, f);
}
#endif

#endif
