/* HIP's qualifiers for compilers that know no device code: they mean nothing there. */
#ifndef HIPRT_HOST_DEFINES_H
#define HIPRT_HOST_DEFINES_H

#if defined(__HIP__) || defined(__CUDACC__)
#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#else
#ifndef __host__
#define __host__
#endif
#ifndef __device__
#define __device__
#endif
#ifndef __global__
#define __global__
#endif
#ifndef __shared__
#define __shared__
#endif
#ifndef __constant__
#define __constant__
#endif
#endif

#ifndef __forceinline__
#define __forceinline__ inline __attribute__((always_inline))
#endif

#endif
