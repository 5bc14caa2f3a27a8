// HIP's functions of contexts. Every device has its primary context and no other.
#include <vector>

#include "runtime/device.h"
#include "runtime/status.h"

namespace cpu {
namespace {

thread_local std::vector<int> pushed;  // the devices that were current before hipCtxPushCurrent

}  // namespace
}  // namespace cpu

using namespace cpu;

hipError_t hipDevicePrimaryCtxRetain(hipCtx_t *context, hipDevice_t device) {
  return api([&] {
    if (!is_device(device)) return hipErrorInvalidDevice;
    if (!context) return hipErrorInvalidValue;
    *context = primary_context(device);
    ++(*context)->retained;
    return hipSuccess;
  });
}

hipError_t hipDevicePrimaryCtxRelease(hipDevice_t device) {
  return api([&] {
    if (!is_device(device)) return hipErrorInvalidDevice;
    ihipCtx_t &context = *primary_context(device);
    int held = context.retained;
    while (held > 0 && !context.retained.compare_exchange_weak(held, held - 1)) continue;
    return hipSuccess;
  });
}

hipError_t hipDevicePrimaryCtxGetState(hipDevice_t device, unsigned int *flags, int *active) {
  return api([&] {
    if (!is_device(device)) return hipErrorInvalidDevice;
    if (!flags || !active) return hipErrorInvalidValue;
    *flags = primary_context(device)->flags;
    *active = device == current_device() || primary_context(device)->retained > 0;
    return hipSuccess;
  });
}

hipError_t hipDevicePrimaryCtxSetFlags(hipDevice_t device, unsigned int flags) {
  return api([&] {
    if (!is_device(device)) return hipErrorInvalidDevice;
    if (!are_device_flags(flags)) return hipErrorInvalidValue;
    primary_context(device)->flags = flags;
    return hipSuccess;
  });
}

hipError_t hipCtxCreate(hipCtx_t *context, unsigned int flags, hipDevice_t device) {
  return api([&] {
    if (!context || !are_device_flags(flags)) return hipErrorInvalidValue;
    if (!is_device(device)) return hipErrorInvalidDevice;
    pushed.push_back(current_device());
    set_current_device(device);
    *context = primary_context(device);
    return hipSuccess;
  });
}

hipError_t hipCtxDestroy(hipCtx_t context) {
  return api([&] {
    if (!is_context(context)) return hipErrorInvalidValue;
    // If the context is current, the one before it becomes current again.
    if (context == primary_context(current_device()) && !pushed.empty()) {
      set_current_device(pushed.back());
      pushed.pop_back();
    }
    return hipSuccess;
  });
}

hipError_t hipCtxPushCurrent(hipCtx_t context) {
  return api([&] {
    if (!is_context(context)) return hipErrorInvalidContext;
    pushed.push_back(current_device());
    set_current_device(context->device);
    return hipSuccess;
  });
}

hipError_t hipCtxPopCurrent(hipCtx_t *context) {
  return api([&] {
    if (pushed.empty()) return hipErrorInvalidContext;
    if (context) *context = primary_context(current_device());
    set_current_device(pushed.back());
    pushed.pop_back();
    return hipSuccess;
  });
}

hipError_t hipCtxSetCurrent(hipCtx_t context) {
  return api([&] {
    if (!context) return pushed.empty() ? hipSuccess : hipCtxPopCurrent(nullptr);
    if (!is_context(context)) return hipErrorInvalidContext;
    set_current_device(context->device);
    return hipSuccess;
  });
}

hipError_t hipCtxGetCurrent(hipCtx_t *context) {
  return api([&] {
    if (!context) return hipErrorInvalidValue;
    *context = is_device(0) ? primary_context(current_device()) : nullptr;
    return hipSuccess;
  });
}

hipError_t hipCtxGetDevice(hipDevice_t *device) { return hipGetDevice(device); }

hipError_t hipCtxGetApiVersion(hipCtx_t context, unsigned int *version) {
  return api([&] {
    if (!version) return hipErrorInvalidValue;
    if (context && !is_context(context)) return hipErrorInvalidContext;
    *version = HIP_VERSION_MAJOR;
    return hipSuccess;
  });
}

hipError_t hipCtxGetFlags(unsigned int *flags) { return hipGetDeviceFlags(flags); }

hipError_t hipCtxSynchronize() { return hipDeviceSynchronize(); }

hipError_t hipCtxGetCacheConfig(hipFuncCache_t *config) { return hipDeviceGetCacheConfig(config); }

hipError_t hipCtxSetCacheConfig(hipFuncCache_t config) { return hipDeviceSetCacheConfig(config); }

hipError_t hipCtxGetSharedMemConfig(hipSharedMemConfig *config) { return hipDeviceGetSharedMemConfig(config); }

hipError_t hipCtxSetSharedMemConfig(hipSharedMemConfig config) { return hipDeviceSetSharedMemConfig(config); }
