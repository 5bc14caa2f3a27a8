/* Memory: allocation, copies, fills. */
#include "driver.h"

hipError_t hipMalloc(void **pointer, size_t size) {
  NV_ENTER();
  CUdeviceptr address = 0;
  hipError_t status = size ? (hipError_t)nv.MemAlloc(&address, size) : hipSuccess;
  *pointer = (void *)(uintptr_t)address;
  return status;
}

hipError_t hipFree(void *pointer) {
  NV_ENTER();
  return pointer ? (hipError_t)nv.MemFree(nv_address(pointer)) : hipSuccess;
}

hipError_t hipHostMalloc(void **pointer, size_t size, unsigned int flags) {
  NV_ENTER();
  (void)flags;
  return (hipError_t)nv.MemHostAlloc(pointer, size, 1 /* portable */);
}

hipError_t hipHostFree(void *pointer) {
  NV_ENTER();
  return pointer ? (hipError_t)nv.MemFreeHost(pointer) : hipSuccess;
}

hipError_t hipMallocAsync(void **pointer, size_t size, hipStream_t stream) {
  NV_ENTER();
  CUdeviceptr address = 0;
  hipError_t status = size ? (hipError_t)nv.MemAllocAsync(&address, size, stream) : hipSuccess;
  *pointer = (void *)(uintptr_t)address;
  return status;
}

hipError_t hipFreeAsync(void *pointer, hipStream_t stream) {
  NV_ENTER();
  return pointer ? (hipError_t)nv.MemFreeAsync(nv_address(pointer), stream) : hipSuccess;
}

/* hipMemPoolProps and its attributes have the driver's layout and numbers. */
hipError_t hipMemPoolCreate(hipMemPool_t *pool, const hipMemPoolProps *properties) {
  NV_ENTER();
  return (hipError_t)nv.MemPoolCreate((void **)pool, properties);
}

hipError_t hipMemPoolDestroy(hipMemPool_t pool) {
  NV_ENTER();
  return (hipError_t)nv.MemPoolDestroy(pool);
}

hipError_t hipMemPoolTrimTo(hipMemPool_t pool, size_t bytes) {
  NV_ENTER();
  return (hipError_t)nv.MemPoolTrimTo(pool, bytes);
}

hipError_t hipMemPoolSetAttribute(hipMemPool_t pool, hipMemPoolAttr attribute, void *value) {
  NV_ENTER();
  return (hipError_t)nv.MemPoolSetAttribute(pool, (int)attribute, value);
}

hipError_t hipMemPoolGetAttribute(hipMemPool_t pool, hipMemPoolAttr attribute, void *value) {
  NV_ENTER();
  return (hipError_t)nv.MemPoolGetAttribute(pool, (int)attribute, value);
}

hipError_t hipMallocFromPoolAsync(void **pointer, size_t size, hipMemPool_t pool, hipStream_t stream) {
  NV_ENTER();
  CUdeviceptr address = 0;
  hipError_t status = size ? (hipError_t)nv.MemAllocFromPoolAsync(&address, size, pool, stream) : hipSuccess;
  *pointer = (void *)(uintptr_t)address;
  return status;
}

hipError_t hipDeviceGetDefaultMemPool(hipMemPool_t *pool, int device) {
  NV_ENTER();
  CUdevice handle;
  hipError_t status = (hipError_t)nv.DeviceGet(&handle, device);
  return status ? status : (hipError_t)nv.DeviceGetDefaultMemPool((void **)pool, handle);
}

hipError_t hipMemGetInfo(size_t *available, size_t *total) {
  NV_ENTER();
  return (hipError_t)nv.MemGetInfo(available, total);
}

/* The driver tells host from device by the address, so it does not need the kind. */
hipError_t hipMemcpyAsync(void *dst, const void *src, size_t size, hipMemcpyKind kind, hipStream_t stream) {
  NV_ENTER();
  (void)kind;
  return size ? (hipError_t)nv.MemcpyAsync(nv_address(dst), nv_address(src), size, stream) : hipSuccess;
}

hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t dst, hipDeviceptr_t src, size_t size, hipStream_t stream) {
  return hipMemcpyAsync(dst, src, size, hipMemcpyDeviceToDevice, stream);
}

hipError_t hipMemcpy(void *dst, const void *src, size_t size, hipMemcpyKind kind) {
  NV_ENTER();
  (void)kind;
  return size ? (hipError_t)nv.Memcpy(nv_address(dst), nv_address(src), size) : hipSuccess;
}

hipError_t hipMemsetD8Async(hipDeviceptr_t dst, unsigned char value, size_t count, hipStream_t stream) {
  NV_ENTER();
  return count ? (hipError_t)nv.MemsetD8Async(nv_address(dst), value, count, stream) : hipSuccess;
}

hipError_t hipMemsetD16Async(hipDeviceptr_t dst, unsigned short value, size_t count, hipStream_t stream) {
  NV_ENTER();
  return count ? (hipError_t)nv.MemsetD16Async(nv_address(dst), value, count, stream) : hipSuccess;
}

hipError_t hipMemsetD32Async(hipDeviceptr_t dst, int value, size_t count, hipStream_t stream) {
  NV_ENTER();
  return count ? (hipError_t)nv.MemsetD32Async(nv_address(dst), (unsigned)value, count, stream) : hipSuccess;
}

hipError_t hipMemsetD32(hipDeviceptr_t dst, int value, size_t count) {
  hipError_t status = hipMemsetD32Async(dst, value, count, 0);
  return status ? status : hipStreamSynchronize(0);
}
