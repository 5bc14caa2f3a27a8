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

/* Symbols by name instead of by address. */
#define HIP_SYMBOL(X) X

template <class T>
static inline hipError_t hipGetSymbolAddress(void **devPtr, const T &symbol) {
  return hipGetSymbolAddress(devPtr, static_cast<const void *>(&symbol));
}

template <class T>
static inline hipError_t hipGetSymbolSize(size_t *size, const T &symbol) {
  return hipGetSymbolSize(size, static_cast<const void *>(&symbol));
}

template <class T>
static inline hipError_t hipMemcpyToSymbol(const T &symbol, const void *src, size_t sizeBytes, size_t offset = 0,
                                           hipMemcpyKind kind = hipMemcpyHostToDevice) {
  return hipMemcpyToSymbol(static_cast<const void *>(&symbol), src, sizeBytes, offset, kind);
}

template <class T>
static inline hipError_t hipMemcpyToSymbolAsync(const T &symbol, const void *src, size_t sizeBytes, size_t offset,
                                                hipMemcpyKind kind, hipStream_t stream = 0) {
  return hipMemcpyToSymbolAsync(static_cast<const void *>(&symbol), src, sizeBytes, offset, kind, stream);
}

template <class T>
static inline hipError_t hipMemcpyFromSymbol(void *dst, const T &symbol, size_t sizeBytes, size_t offset = 0,
                                             hipMemcpyKind kind = hipMemcpyDeviceToHost) {
  return hipMemcpyFromSymbol(dst, static_cast<const void *>(&symbol), sizeBytes, offset, kind);
}

template <class T>
static inline hipError_t hipMemcpyFromSymbolAsync(void *dst, const T &symbol, size_t sizeBytes, size_t offset,
                                                  hipMemcpyKind kind, hipStream_t stream = 0) {
  return hipMemcpyFromSymbolAsync(dst, static_cast<const void *>(&symbol), sizeBytes, offset, kind, stream);
}

/* Kernels by name instead of by address. */
template <class Function>
static inline hipError_t hipFuncGetAttributes(hipFuncAttributes *attr, Function *function) {
  return hipFuncGetAttributes(attr, reinterpret_cast<const void *>(function));
}

template <class Function>
static inline hipError_t hipFuncSetAttribute(Function *function, hipFuncAttribute attr, int value) {
  return hipFuncSetAttribute(reinterpret_cast<const void *>(function), attr, value);
}

template <class Function>
static inline hipError_t hipOccupancyMaxPotentialBlockSize(int *gridSize, int *blockSize, Function *function,
                                                           size_t dynSharedMemPerBlk = 0, int blockSizeLimit = 0) {
  return hipOccupancyMaxPotentialBlockSize(gridSize, blockSize, reinterpret_cast<const void *>(function),
                                           dynSharedMemPerBlk, blockSizeLimit);
}

template <class Function>
static inline hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, Function *function, int blockSize,
                                                                      size_t dynSharedMemPerBlk) {
  return hipOccupancyMaxActiveBlocksPerMultiprocessor(numBlocks, reinterpret_cast<const void *>(function), blockSize,
                                                      dynSharedMemPerBlk);
}

template <class Function>
static inline hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, Function *function,
                                                                               int blockSize, size_t dynSharedMemPerBlk,
                                                                               unsigned int flags = 0) {
  return hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, reinterpret_cast<const void *>(function),
                                                               blockSize, dynSharedMemPerBlk, flags);
}

template <class Function>
static inline hipError_t hipLaunchCooperativeKernel(Function *function, dim3 gridDim, dim3 blockDim,
                                                    void **kernelParams, unsigned int sharedMemBytes, hipStream_t stream) {
  return hipLaunchCooperativeKernel(reinterpret_cast<const void *>(function), gridDim, blockDim, kernelParams,
                                    sharedMemBytes, stream);
}

#endif
