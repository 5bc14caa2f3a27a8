// HIP's functions that choose a device, wait for it, reset it and set it up.
#include "flags.h"
#include "graph/capture.h"
#include "graph/capture_rules.h"
#include "runtime/device.h"
#include "runtime/memory.h"
#include "runtime/module.h"
#include "runtime/pool.h"
#include "runtime/scheduler.h"
#include "runtime/status.h"
#include "runtime/stream.h"

namespace cpu {
namespace {

ihipCtx_t &current_context() { return *primary_context(current_device()); }

hipError_t synchronize() {
  if (const hipError_t error = capture_forbids_device_sync()) return error;
  const hipError_t error = Scheduler::get().wait_device(current_device());
  pool_release_unused();
  return error;
}

// Frees all that belongs to a device and makes it usable again.
hipError_t reset_device(int device) {
  if (const hipError_t error = capture_forbids_device_sync()) return error;
  Scheduler::get().wait_device(device);
  for (hipStream_t stream : streams_of(device)) {
    capture_stream_destroyed(stream);
    remove_stream(stream);
  }
  unload_modules(device);
  pool_release_unused();
  free_all(device);
  Scheduler::get().revive(device);
  return hipSuccess;
}

std::atomic<size_t> *limit_of(ihipCtx_t &context, hipLimit_t limit) {
  switch (limit) {
    case hipLimitStackSize: return &context.stack_bytes;
    case hipLimitPrintfFifoSize: return &context.print_bytes;
    case hipLimitMallocHeapSize: return &context.heap_bytes;
    default: return nullptr;
  }
}

}  // namespace
}  // namespace cpu

using namespace cpu;

hipError_t hipInit(unsigned int flags) {
  return api([&] {
    if (flags != 0) return hipErrorInvalidValue;
    return is_device(0) ? hipSuccess : hipErrorNoDevice;
  });
}

hipError_t hipDriverGetVersion(int *version) {
  return api([&] {
    if (!version) return hipErrorInvalidValue;
    *version = HIP_VERSION;
    return hipSuccess;
  });
}

hipError_t hipRuntimeGetVersion(int *version) { return hipDriverGetVersion(version); }

hipError_t hipGetDeviceCount(int *count) {
  return api([&] {
    if (!count) return hipErrorInvalidValue;
    *count = cpu::flags().devices;
    return *count ? hipSuccess : hipErrorNoDevice;
  });
}

hipError_t hipSetDevice(int device) {
  return api([&] {
    if (!is_device(device)) return hipErrorInvalidDevice;
    set_current_device(device);
    return hipSuccess;
  });
}

hipError_t hipGetDevice(int *device) {
  return api([&] {
    if (!device) return hipErrorInvalidValue;
    if (!is_device(0)) return hipErrorNoDevice;
    *device = current_device();
    return hipSuccess;
  });
}

hipError_t hipDeviceGet(hipDevice_t *device, int ordinal) {
  return api([&] {
    if (!device) return hipErrorInvalidValue;
    if (!is_device(ordinal)) return hipErrorInvalidDevice;
    *device = ordinal;
    return hipSuccess;
  });
}

hipError_t hipDeviceSynchronize() {
  return api([&] { return synchronize(); });
}

hipError_t hipDeviceReset() {
  return api([&] { return reset_device(current_device()); });
}

hipError_t hipDeviceGetLimit(size_t *value, hipLimit_t limit) {
  return api([&] {
    const std::atomic<size_t> *kept = limit_of(current_context(), limit);
    if (!value) return hipErrorInvalidValue;
    if (!kept) return hipErrorUnsupportedLimit;
    *value = *kept;
    return hipSuccess;
  });
}

hipError_t hipDeviceSetLimit(hipLimit_t limit, size_t value) {
  return api([&] {
    std::atomic<size_t> *kept = limit_of(current_context(), limit);
    if (!kept) return hipErrorUnsupportedLimit;
    *kept = value;
    return hipSuccess;
  });
}

hipError_t hipDeviceGetCacheConfig(hipFuncCache_t *config) {
  return api([&] {
    if (!config) return hipErrorInvalidValue;
    *config = current_context().cache;
    return hipSuccess;
  });
}

hipError_t hipDeviceSetCacheConfig(hipFuncCache_t config) {
  return api([&] {
    if (const hipError_t error = capture_forbids_since_7()) return error;
    if (config < hipFuncCachePreferNone || config > hipFuncCachePreferEqual) return hipErrorInvalidValue;
    current_context().cache = config;
    return hipSuccess;
  });
}

hipError_t hipDeviceGetSharedMemConfig(hipSharedMemConfig *config) {
  return api([&] {
    if (!config) return hipErrorInvalidValue;
    *config = current_context().banks;
    return hipSuccess;
  });
}

hipError_t hipDeviceSetSharedMemConfig(hipSharedMemConfig config) {
  return api([&] {
    if (const hipError_t error = capture_forbids_since_7()) return error;
    if (config < hipSharedMemBankSizeDefault || config > hipSharedMemBankSizeEightByte) return hipErrorInvalidValue;
    current_context().banks = config;
    return hipSuccess;
  });
}

hipError_t hipGetDeviceFlags(unsigned int *flags) {
  return api([&] {
    if (!flags) return hipErrorInvalidValue;
    *flags = current_context().flags;
    return hipSuccess;
  });
}

hipError_t hipSetDeviceFlags(unsigned int flags) {
  return api([&] {
    if (!are_device_flags(flags)) return hipErrorInvalidValue;
    current_context().flags = flags;
    return hipSuccess;
  });
}

hipError_t hipDevicePrimaryCtxReset(hipDevice_t device) {
  return api([&] { return is_device(device) ? reset_device(device) : hipErrorInvalidDevice; });
}
