/* C++ forms that take typed pointers, so that callers need no casts; included by hip_runtime_api.h. */
#ifndef HIPRT_HIP_TYPED_API_H
#define HIPRT_HIP_TYPED_API_H

template <class T>
static inline hipError_t hipMalloc(T **ptr, size_t size) {
  return hipMalloc(reinterpret_cast<void **>(ptr), size);
}

template <class T>
static inline hipError_t hipHostMalloc(T **ptr, size_t size, unsigned int flags = hipHostMallocDefault) {
  return hipHostMalloc(reinterpret_cast<void **>(ptr), size, flags);
}

template <class T>
static inline hipError_t hipHostAlloc(T **ptr, size_t size, unsigned int flags = hipHostAllocDefault) {
  return hipHostAlloc(reinterpret_cast<void **>(ptr), size, flags);
}

template <class T>
static inline hipError_t hipMallocHost(T **ptr, size_t size) {
  return hipMallocHost(reinterpret_cast<void **>(ptr), size);
}

template <class T>
static inline hipError_t hipMallocManaged(T **ptr, size_t size, unsigned int flags = hipMemAttachGlobal) {
  return hipMallocManaged(reinterpret_cast<void **>(ptr), size, flags);
}

template <class T>
static inline hipError_t hipMallocPitch(T **ptr, size_t *pitch, size_t width, size_t height) {
  return hipMallocPitch(reinterpret_cast<void **>(ptr), pitch, width, height);
}

template <class T>
static inline hipError_t hipMallocAsync(T **ptr, size_t size, hipStream_t stream) {
  return hipMallocAsync(reinterpret_cast<void **>(ptr), size, stream);
}

template <class T>
static inline hipError_t hipMallocAsync(T **ptr, size_t size, hipMemPool_t pool, hipStream_t stream) {
  return hipMallocFromPoolAsync(reinterpret_cast<void **>(ptr), size, pool, stream);
}

template <class T>
static inline hipError_t hipMallocFromPoolAsync(T **ptr, size_t size, hipMemPool_t pool, hipStream_t stream) {
  return hipMallocFromPoolAsync(reinterpret_cast<void **>(ptr), size, pool, stream);
}

#endif
