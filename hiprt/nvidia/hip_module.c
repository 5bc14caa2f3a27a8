/* Modules and launches. */
#include "cuda_driver.h"

#define MAX_DYNAMIC_SHARED_SIZE_BYTES 8 /* CU_FUNC_ATTRIBUTE_… */

hipError_t nv_allow_shared(hipFunction_t function, unsigned bytes) {
  int allowed = 0;
  if (!bytes) return hipSuccess;
  hipError_t status = nv_done(nv.FuncGetAttribute(&allowed, MAX_DYNAMIC_SHARED_SIZE_BYTES, function));
  if (status || allowed >= (int)bytes) return status;
  return nv_done(nv.FuncSetAttribute(function, MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)bytes));
}

hipError_t hipModuleLoadData(hipModule_t *module, const void *image) {
  NV_ENTER();
  return nv_done(nv.ModuleLoadData((void **)module, image));
}

hipError_t hipModuleUnload(hipModule_t module) {
  NV_ENTER();
  return nv_done(nv.ModuleUnload(module));
}

hipError_t hipModuleGetFunction(hipFunction_t *function, hipModule_t module, const char *name) {
  NV_ENTER();
  return nv_done(nv.ModuleGetFunction((void **)function, module, name));
}

hipError_t hipModuleGetGlobal(hipDeviceptr_t *pointer, size_t *size, hipModule_t module, const char *name) {
  NV_ENTER();
  CUdeviceptr address = 0;
  hipError_t status = nv_done(nv.ModuleGetGlobal(&address, size, module, name));
  if (!status) *pointer = (hipDeviceptr_t)(uintptr_t)address;
  return status;
}

hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                 unsigned bz, unsigned shared, hipStream_t stream, void **params, void **extra) {
  NV_ENTER();
  hipError_t status = nv_allow_shared(function, shared);
  if (status) return status;
  void *list[5];
  return nv_done(nv.LaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, params, nv_extra(extra, list)));
}

/* HIP's configuration and attributes have the driver's layout and numbers. */
hipError_t hipDrvLaunchKernelEx(const HIP_LAUNCH_CONFIG *config, hipFunction_t function, void **params, void **extra) {
  NV_ENTER();
  if (!nv.LaunchKernelEx) return nv_done(hipErrorNotSupported);
  hipError_t status = nv_allow_shared(function, config->sharedMemBytes);
  if (status) return status;
  void *list[5];
  return nv_done(nv.LaunchKernelEx(config, function, params, nv_extra(extra, list)));
}
