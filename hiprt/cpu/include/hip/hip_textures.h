// Textures and surfaces, which the CPU device does not have, as HIP declares them: a program that makes one does not link and is told
// the function's name, and a kernel that reads one does not compile. A texture reference may be declared: nothing binds it.
#pragma once

#include "hip/texture_types.h"

struct hipResourceDesc {
  hipResourceType resType;
  union {
    struct {
      hipArray_t array;
    } array;
    struct {
      hipMipmappedArray_t mipmap;
    } mipmap;
    struct {
      void *devPtr;
      hipChannelFormatDesc desc;
      size_t sizeInBytes;
    } linear;
    struct {
      void *devPtr;
      hipChannelFormatDesc desc;
      size_t width, height, pitchInBytes;
    } pitch2D;
  } res;
};

struct hipTextureDesc {
  hipTextureAddressMode addressMode[3];
  hipTextureFilterMode filterMode;
  hipTextureReadMode readMode;
  int sRGB;
  float borderColor[4];
  int normalizedCoords;
  unsigned maxAnisotropy;
  hipTextureFilterMode mipmapFilterMode;
  float mipmapLevelBias, minMipmapLevelClamp, maxMipmapLevelClamp;
};

struct hipResourceViewDesc {
  int format;
  size_t width, height, depth;
  unsigned firstMipmapLevel, lastMipmapLevel, firstLayer, lastLayer;
};

struct textureReference {
  int normalized;
  hipTextureReadMode readMode;
  hipTextureFilterMode filterMode;
  hipTextureAddressMode addressMode[3];
  hipChannelFormatDesc channelDesc;
  int sRGB;
  unsigned maxAnisotropy;
  hipTextureFilterMode mipmapFilterMode;
  float mipmapLevelBias, minMipmapLevelClamp, maxMipmapLevelClamp;
  hipTextureObject_t textureObject;
  int numChannels;
  hipArray_Format format;
};
template <class T, int type = hipTextureType1D, hipTextureReadMode mode = hipReadModeElementType>
struct texture : textureReference {};

extern "C" {
hipError_t hipCreateTextureObject(hipTextureObject_t *texture, const hipResourceDesc *resource, const hipTextureDesc *desc,
                                  const hipResourceViewDesc *view);
hipError_t hipDestroyTextureObject(hipTextureObject_t texture);
hipError_t hipGetTextureObjectResourceDesc(hipResourceDesc *resource, hipTextureObject_t texture);
hipError_t hipGetTextureObjectTextureDesc(hipTextureDesc *desc, hipTextureObject_t texture);
hipError_t hipCreateSurfaceObject(hipSurfaceObject_t *surface, const hipResourceDesc *resource);
hipError_t hipDestroySurfaceObject(hipSurfaceObject_t surface);
}

#define __hiprt_absent template <class T> __attribute__((device, error("the CPU device has no textures and surfaces")))
#define __hiprt_texture(name, ...)                           \
  __hiprt_absent T name(hipTextureObject_t, __VA_ARGS__);    \
  __hiprt_absent void name(T *, hipTextureObject_t, __VA_ARGS__);
#define __hiprt_surface(name, ...)                                     \
  __hiprt_absent T name##read(hipSurfaceObject_t, __VA_ARGS__);        \
  __hiprt_absent void name##read(T *, hipSurfaceObject_t, __VA_ARGS__); \
  __hiprt_absent void name##write(T, hipSurfaceObject_t, __VA_ARGS__);
__hiprt_texture(tex1Dfetch, int)
__hiprt_texture(tex1D, float)
__hiprt_texture(tex2D, float, float)
__hiprt_texture(tex3D, float, float, float)
__hiprt_texture(tex1DLayered, float, int)
__hiprt_texture(tex2DLayered, float, float, int)
__hiprt_texture(tex1DLod, float, float)
__hiprt_texture(tex2DLod, float, float, float)
__hiprt_texture(tex3DLod, float, float, float, float)
__hiprt_texture(texCubemap, float, float, float)
__hiprt_surface(surf1D, int)
__hiprt_surface(surf2D, int, int)
__hiprt_surface(surf3D, int, int, int)
#undef __hiprt_surface
#undef __hiprt_texture
#undef __hiprt_absent
