/* Memory: allocation, copies, fills. */
#include "cuda_driver.h"

hipError_t hipMalloc(void **pointer, size_t size) {
  NV_ENTER();
  CUdeviceptr address = 0;
  hipError_t status = size ? nv_done(nv.MemAlloc(&address, size)) : hipSuccess;
  *pointer = (void *)(uintptr_t)address;
  return status;
}

/* All of the driver's memory is coherent between devices. */
hipError_t hipExtMallocWithFlags(void **pointer, size_t size, unsigned int flags) {
  (void)flags;
  return hipMalloc(pointer, size);
}

hipError_t hipFree(void *pointer) {
  NV_ENTER();
  return pointer ? nv_done(nv.MemFree(nv_address(pointer))) : hipSuccess;
}

hipError_t hipHostMalloc(void **pointer, size_t size, unsigned int flags) {
  NV_ENTER();
  (void)flags;
  return nv_done(nv.MemHostAlloc(pointer, size, 1 /* portable */));
}

hipError_t hipHostFree(void *pointer) {
  NV_ENTER();
  return pointer ? nv_done(nv.MemFreeHost(pointer)) : hipSuccess;
}

hipError_t hipHostAlloc(void **pointer, size_t size, unsigned int flags) { return hipHostMalloc(pointer, size, flags); }

hipError_t hipMallocHost(void **pointer, size_t size) { return hipHostMalloc(pointer, size, 0); }

hipError_t hipFreeHost(void *pointer) { return hipHostFree(pointer); }

hipError_t hipMallocAsync(void **pointer, size_t size, hipStream_t stream) {
  NV_ENTER();
  CUdeviceptr address = 0;
  hipError_t status = size ? nv_done(nv.MemAllocAsync(&address, size, stream)) : hipSuccess;
  *pointer = (void *)(uintptr_t)address;
  return status;
}

hipError_t hipFreeAsync(void *pointer, hipStream_t stream) {
  NV_ENTER();
  return pointer ? nv_done(nv.MemFreeAsync(nv_address(pointer), stream)) : hipSuccess;
}

/* hipMemPoolProps and its attributes have the driver's layout and numbers. */
hipError_t hipMemPoolCreate(hipMemPool_t *pool, const hipMemPoolProps *properties) {
  NV_ENTER();
  return nv_done(nv.MemPoolCreate((void **)pool, properties));
}

hipError_t hipMemPoolDestroy(hipMemPool_t pool) {
  NV_ENTER();
  return nv_done(nv.MemPoolDestroy(pool));
}

hipError_t hipMemPoolTrimTo(hipMemPool_t pool, size_t bytes) {
  NV_ENTER();
  return nv_done(nv.MemPoolTrimTo(pool, bytes));
}

hipError_t hipMemPoolSetAttribute(hipMemPool_t pool, hipMemPoolAttr attribute, void *value) {
  NV_ENTER();
  return nv_done(nv.MemPoolSetAttribute(pool, (int)attribute, value));
}

hipError_t hipMemPoolGetAttribute(hipMemPool_t pool, hipMemPoolAttr attribute, void *value) {
  NV_ENTER();
  return nv_done(nv.MemPoolGetAttribute(pool, (int)attribute, value));
}

hipError_t hipMallocFromPoolAsync(void **pointer, size_t size, hipMemPool_t pool, hipStream_t stream) {
  NV_ENTER();
  CUdeviceptr address = 0;
  hipError_t status = size ? nv_done(nv.MemAllocFromPoolAsync(&address, size, pool, stream)) : hipSuccess;
  *pointer = (void *)(uintptr_t)address;
  return status;
}

hipError_t hipDeviceGetDefaultMemPool(hipMemPool_t *pool, int device) {
  NV_ENTER();
  CUdevice handle;
  hipError_t status = nv_done(nv.DeviceGet(&handle, device));
  return status ? status : nv_done(nv.DeviceGetDefaultMemPool((void **)pool, handle));
}

/* Memory that other processes open: hipMalloc's, not a pool's. Handles and flags have the driver's layout and numbers. */
hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t *handle, void *pointer) {
  NV_ENTER();
  return nv_done(nv.IpcGetMemHandle ? nv.IpcGetMemHandle(handle, nv_address(pointer)) : (int)hipErrorNotSupported);
}

hipError_t hipIpcOpenMemHandle(void **pointer, hipIpcMemHandle_t handle, unsigned int flags) {
  NV_ENTER();
  if (!nv.IpcOpenMemHandle) return nv_done(hipErrorNotSupported);
  CUdeviceptr address = 0;
  hipError_t status = nv_done(nv.IpcOpenMemHandle(&address, handle, flags));
  *pointer = (void *)(uintptr_t)address;
  return status;
}

hipError_t hipIpcCloseMemHandle(void *pointer) {
  NV_ENTER();
  return nv_done(nv.IpcCloseMemHandle ? nv.IpcCloseMemHandle(nv_address(pointer)) : (int)hipErrorNotSupported);
}

hipError_t hipMemGetInfo(size_t *available, size_t *total) {
  NV_ENTER();
  return nv_done(nv.MemGetInfo(available, total));
}

/* The driver tells host from device by the address, so it does not need the kind. */
hipError_t hipMemcpyAsync(void *dst, const void *src, size_t size, hipMemcpyKind kind, hipStream_t stream) {
  NV_ENTER();
  (void)kind;
  return size ? nv_done(nv.MemcpyAsync(nv_address(dst), nv_address(src), size, stream)) : hipSuccess;
}

hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t dst, const void *src, size_t size, hipStream_t stream) {
  return hipMemcpyAsync(dst, src, size, hipMemcpyHostToDevice, stream);
}

hipError_t hipMemcpyDtoHAsync(void *dst, hipDeviceptr_t src, size_t size, hipStream_t stream) {
  return hipMemcpyAsync(dst, src, size, hipMemcpyDeviceToHost, stream);
}

hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t dst, hipDeviceptr_t src, size_t size, hipStream_t stream) {
  return hipMemcpyAsync(dst, src, size, hipMemcpyDeviceToDevice, stream);
}

hipError_t hipMemcpy(void *dst, const void *src, size_t size, hipMemcpyKind kind) {
  NV_ENTER();
  (void)kind;
  return size ? nv_done(nv.Memcpy(nv_address(dst), nv_address(src), size)) : hipSuccess;
}

hipError_t hipMemcpyHtoD(hipDeviceptr_t dst, const void *src, size_t size) {
  return hipMemcpy(dst, src, size, hipMemcpyHostToDevice);
}

hipError_t hipMemcpyDtoH(void *dst, hipDeviceptr_t src, size_t size) {
  return hipMemcpy(dst, src, size, hipMemcpyDeviceToHost);
}

hipError_t hipMemcpyDtoD(hipDeviceptr_t dst, hipDeviceptr_t src, size_t size) {
  return hipMemcpy(dst, src, size, hipMemcpyDeviceToDevice);
}

hipError_t hipMemcpyWithStream(void *dst, const void *src, size_t size, hipMemcpyKind kind, hipStream_t stream) {
  hipError_t status = hipMemcpyAsync(dst, src, size, kind, stream);
  return status ? status : hipStreamSynchronize(stream);
}

hipError_t hipMemsetD8Async(hipDeviceptr_t dst, unsigned char value, size_t count, hipStream_t stream) {
  NV_ENTER();
  return count ? nv_done(nv.MemsetD8Async(nv_address(dst), value, count, stream)) : hipSuccess;
}

hipError_t hipMemsetAsync(void *dst, int value, size_t size, hipStream_t stream) {
  return hipMemsetD8Async(dst, (unsigned char)value, size, stream);
}

hipError_t hipMemset(void *dst, int value, size_t size) {
  hipError_t status = hipMemsetAsync(dst, value, size, 0);
  return status ? status : hipStreamSynchronize(0);
}

hipError_t hipMemsetD16Async(hipDeviceptr_t dst, unsigned short value, size_t count, hipStream_t stream) {
  NV_ENTER();
  return count ? nv_done(nv.MemsetD16Async(nv_address(dst), value, count, stream)) : hipSuccess;
}

hipError_t hipMemsetD32Async(hipDeviceptr_t dst, int value, size_t count, hipStream_t stream) {
  NV_ENTER();
  return count ? nv_done(nv.MemsetD32Async(nv_address(dst), (unsigned)value, count, stream)) : hipSuccess;
}

hipError_t hipMemsetD32(hipDeviceptr_t dst, int value, size_t count) {
  hipError_t status = hipMemsetD32Async(dst, value, count, 0);
  return status ? status : hipStreamSynchronize(0);
}
