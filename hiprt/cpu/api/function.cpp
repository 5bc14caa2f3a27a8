// HIP's functions of kernels' attributes.
#include "runtime/device.h"
#include "runtime/function.h"
#include "runtime/module.h"
#include "runtime/properties.h"
#include "runtime/status.h"

namespace cpu {
namespace {

// Returns the version of the instructions that kernels have, as CLR gives it (hip_global.cpp:187 of ROCm/clr @f9f995c6d).
int version() {
  const hipDeviceProp_t &device = properties(current_device());
  return device.major * 10 + device.minor;
}

hipError_t get_attribute(int *out, hipFunction_attribute which, const Kernel &kernel) {
  const auto give = [&](uint32_t value) {
    *out = static_cast<int>(value);
    return hipSuccess;
  };
  switch (which) {
    case HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      return give(kernel.max_threads);
    case HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      return give(kernel.static_shared);
    case HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      return give(kSharedMemory - kernel.static_shared);
    case HIP_FUNC_ATTRIBUTE_PTX_VERSION:
    case HIP_FUNC_ATTRIBUTE_BINARY_VERSION:
      return give(static_cast<uint32_t>(version()));
    // A host core has no such registers or caches to report.
    case HIP_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
    case HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
    case HIP_FUNC_ATTRIBUTE_NUM_REGS:
    case HIP_FUNC_ATTRIBUTE_CACHE_MODE_CA:
    case HIP_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      return give(0);
    default:
      return hipErrorInvalidValue;
  }
}

hipError_t get_attribute(int *out, hipFunction_attribute which, const void *handle) {
  Function function;
  if (!out) return hipErrorInvalidValue;
  return find_function(handle, &function) ? get_attribute(out, which, *function.kernel) : hipErrorInvalidHandle;
}

// Every kernel may use all shared memory without asking, so that a request is only checked.
hipError_t set_attribute(const void *handle, int which, int value) {
  Function function;
  if (!find_function(handle, &function)) return hipErrorInvalidDeviceFunction;
  switch (which) {
    case hipFuncAttributeMaxDynamicSharedMemorySize: {
      const bool fits = value >= 0 && static_cast<uint32_t>(value) <= kSharedMemory - function.kernel->static_shared;
      return fits ? hipSuccess : hipErrorInvalidValue;
    }
    case hipFuncAttributePreferredSharedMemoryCarveout:
      return value >= -1 && value <= 100 ? hipSuccess : hipErrorInvalidValue;
    default:
      return hipErrorInvalidValue;
  }
}

}  // namespace
}  // namespace cpu

using namespace cpu;

hipError_t hipFuncGetAttribute(int *value, hipFunction_attribute which, hipFunction_t function) {
  return api([&] { return get_attribute(value, which, function); });
}

hipError_t hipKernelGetAttribute(int *value, hipFunction_attribute which, hipKernel_t kernel, hipDevice_t device) {
  return api([&] { return is_device(device) ? get_attribute(value, which, kernel) : hipErrorInvalidDevice; });
}

hipError_t hipFuncGetAttributes(hipFuncAttributes *out, const void *handle) {
  return api([&] {
    Function function;
    if (!out) return hipErrorInvalidValue;
    if (!find_function(handle, &function)) return hipErrorInvalidDeviceFunction;
    *out = {};
    out->maxThreadsPerBlock = static_cast<int>(function.kernel->max_threads);
    out->sharedSizeBytes = function.kernel->static_shared;
    out->binaryVersion = out->ptxVersion = version();
    out->maxDynamicSharedSizeBytes = static_cast<int>(kSharedMemory - function.kernel->static_shared);
    return hipSuccess;
  });
}

hipError_t hipFuncSetAttribute(const void *function, hipFuncAttribute which, int value) {
  return api([&] { return set_attribute(function, which, value); });
}

hipError_t hipKernelSetAttribute(hipFunction_attribute which, int value, hipKernel_t kernel, hipDevice_t device) {
  return api([&] { return is_device(device) ? set_attribute(kernel, which, value) : hipErrorInvalidDevice; });
}

hipError_t hipFuncSetCacheConfig(const void *handle, hipFuncCache_t config) {
  return api([&] {
    Function function;
    if (config < hipFuncCachePreferNone || config > hipFuncCachePreferEqual) return hipErrorInvalidValue;
    return find_function(handle, &function) ? hipSuccess : hipErrorInvalidDeviceFunction;
  });
}

hipError_t hipFuncSetSharedMemConfig(const void *handle, hipSharedMemConfig config) {
  return api([&] {
    Function function;
    if (config < hipSharedMemBankSizeDefault || config > hipSharedMemBankSizeEightByte) return hipErrorInvalidValue;
    return find_function(handle, &function) ? hipSuccess : hipErrorInvalidDeviceFunction;
  });
}
