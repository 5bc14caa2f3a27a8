/* Devices, errors and versions. */
#include <stdio.h>
#include <string.h>

#include "cuda_driver.h"
#include "hip/hiprt_error_texts.h"

/* CUdevice_attribute values (cuda.h). */
enum {
  MAX_THREADS_PER_BLOCK = 1,
  MAX_BLOCK_DIM_X = 2,
  MAX_GRID_DIM_X = 5,
  SHARED_MEMORY_PER_BLOCK = 8,
  REGISTERS_PER_BLOCK = 12,
  CLOCK_RATE = 13,
  MULTIPROCESSOR_COUNT = 16,
  INTEGRATED = 18,
  PCI_BUS_ID = 33,
  PCI_DEVICE_ID = 34,
  MEMORY_CLOCK_RATE = 36,
  MEMORY_BUS_WIDTH = 37,
  L2_CACHE_SIZE = 38,
  MAX_THREADS_PER_MULTIPROCESSOR = 39,
  COMPUTE_CAPABILITY_MAJOR = 75,
  COMPUTE_CAPABILITY_MINOR = 76,
};

hipError_t hipRuntimeGetVersion(int *version) {
  if (!version) return nv_done(hipErrorInvalidValue);
  *version = HIP_VERSION;
  return hipSuccess;
}

hipError_t hipDriverGetVersion(int *version) {
  hipError_t status = nv_open();
  return status ? status : nv_done(nv.DriverGetVersion(version));
}

hipError_t hipSetDevice(int device) { return device == nv_device() ? nv_enter() : nv_set_device(device); }

hipError_t hipGetDevice(int *device) {
  if (!device) return nv_done(hipErrorInvalidValue);
  *device = nv_device();
  return nv_open();
}

hipError_t hipDeviceSynchronize(void) {
  NV_ENTER();
  return nv_done(nv.CtxSynchronize());
}

static int attribute(int which, CUdevice device) {
  int value = 0;
  nv.DeviceGetAttribute(&value, which, device);
  return value;
}

hipError_t nv_arch(int index, char *out_name) {
  CUdevice device;
  hipError_t status = nv_open();
  if (status) return status;
  if (nv.DeviceGet(&device, index)) return hipErrorInvalidDevice;
  const int major = attribute(COMPUTE_CAPABILITY_MAJOR, device), minor = attribute(COMPUTE_CAPABILITY_MINOR, device);
  snprintf(out_name, NV_MAX_ARCH, "sm_%d%d", major, minor);
  return hipSuccess;
}

hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_tR0600 *p, int index) {
  CUdevice device;
  if (!p) return nv_done(hipErrorInvalidValue);
  hipError_t status = nv_open();
  if (status) return status;
  if (nv.DeviceGet(&device, index)) return nv_done(hipErrorInvalidDevice);
  memset(p, 0, sizeof *p);
  nv.DeviceGetName(p->name, sizeof p->name, device);
  nv.DeviceTotalMem(&p->totalGlobalMem, device);
  p->major = attribute(COMPUTE_CAPABILITY_MAJOR, device);
  p->minor = attribute(COMPUTE_CAPABILITY_MINOR, device);
  nv_arch(index, p->gcnArchName);
  p->warpSize = 32;
  p->multiProcessorCount = attribute(MULTIPROCESSOR_COUNT, device);
  p->maxThreadsPerBlock = attribute(MAX_THREADS_PER_BLOCK, device);
  p->maxThreadsPerMultiProcessor = attribute(MAX_THREADS_PER_MULTIPROCESSOR, device);
  for (int i = 0; i < 3; i++) {
    p->maxThreadsDim[i] = attribute(MAX_BLOCK_DIM_X + i, device);
    p->maxGridSize[i] = attribute(MAX_GRID_DIM_X + i, device);
  }
  p->sharedMemPerBlock = (size_t)attribute(SHARED_MEMORY_PER_BLOCK, device);
  p->regsPerBlock = attribute(REGISTERS_PER_BLOCK, device);
  p->clockRate = attribute(CLOCK_RATE, device);
  p->memoryClockRate = attribute(MEMORY_CLOCK_RATE, device);
  p->memoryBusWidth = attribute(MEMORY_BUS_WIDTH, device);
  p->l2CacheSize = attribute(L2_CACHE_SIZE, device);
  p->integrated = attribute(INTEGRATED, device);
  p->pciBusID = attribute(PCI_BUS_ID, device);
  p->pciDeviceID = attribute(PCI_DEVICE_ID, device);
  return hipSuccess;
}

const char *hipGetErrorName(hipError_t error) {
  switch ((int)error) {
#define NAME(code, meaning)                                                                                            \
  case code:                                                                                                           \
    return #code;
    HIPRT_ERROR_TEXTS(NAME)
#undef NAME
  }
  return hipGetErrorName(hipErrorUnknown);
}

const char *hipGetErrorString(hipError_t error) {
  switch ((int)error) {
#define MEANING(code, meaning)                                                                                         \
  case code:                                                                                                           \
    return meaning;
    HIPRT_ERROR_TEXTS(MEANING)
#undef MEANING
  }
  return hipGetErrorString(hipErrorUnknown);
}
