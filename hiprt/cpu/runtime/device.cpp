#include "runtime/device.h"

#include <array>
#include <atomic>
#include <mutex>
#include <vector>

#include "flags.h"
#include "graph/capture.h"
#include "runtime/memory.h"
#include "runtime/module.h"
#include "runtime/pool.h"
#include "runtime/scheduler.h"
#include "runtime/status.h"
#include "runtime/stream.h"

// What a context handle points to: every device has its primary context and no other.
struct ihipCtx_t {
  int device;
  std::atomic<unsigned> flags{hipDeviceScheduleAuto};
  std::atomic<int> retained{0};
  std::atomic<hipFuncCache_t> cache{hipFuncCachePreferNone};
  std::atomic<hipSharedMemConfig> banks{hipSharedMemBankSizeDefault};
  std::atomic<size_t> stack_bytes{32 * 1024};
  std::atomic<size_t> print_bytes{1024 * 1024};
  std::atomic<size_t> heap_bytes{8 * 1024 * 1024};
  std::array<std::atomic<bool>, cpu::kMaxDevices> peers{};
};

namespace cpu {
namespace {

thread_local int current = 0;
thread_local std::vector<int> pushed;  // hipCtxPushCurrent

std::array<ihipCtx_t, kMaxDevices> &contexts() {
  using All = std::array<ihipCtx_t, kMaxDevices>;
  static All &all = *[] {
    auto *made = new All;
    for (int i = 0; i < kMaxDevices; ++i) (*made)[i].device = i;
    return made;
  }();
  return all;
}

ihipCtx_t &current_context() { return contexts()[current_device()]; }

bool is_context(hipCtx_t context) {
  for (int i = 0; i < flags().devices; ++i) {
    if (context == &contexts()[i]) return true;
  }
  return false;
}

hipError_t synchronize() {
  if (const hipError_t error = capture_forbids_device_sync()) return error;
  const hipError_t error = Scheduler::get().wait_device(current_device());
  pool_release_unused();
  return error;
}

// The schedule is one of four values, the other flags are bits.
bool are_device_flags(unsigned value) {
  const unsigned schedule = value & hipDeviceScheduleMask;
  const bool one = schedule == hipDeviceScheduleAuto || schedule == hipDeviceScheduleSpin ||
                   schedule == hipDeviceScheduleYield || schedule == hipDeviceScheduleBlockingSync;
  return one && !(value & ~(hipDeviceScheduleMask | hipDeviceMapHost | hipDeviceLmemResizeToMax));
}

std::atomic<size_t> *limit_of(ihipCtx_t &context, hipLimit_t limit) {
  switch (limit) {
    case hipLimitStackSize: return &context.stack_bytes;
    case hipLimitPrintfFifoSize: return &context.print_bytes;
    case hipLimitMallocHeapSize: return &context.heap_bytes;
    default: return nullptr;
  }
}

hipError_t enable_peer(int peer, unsigned flags) {
  if (flags != 0) return hipErrorInvalidValue;
  if (!is_device(peer) || peer == current_device()) return hipErrorInvalidDevice;
  return current_context().peers[peer].exchange(true) ? hipErrorPeerAccessAlreadyEnabled : hipSuccess;
}

hipError_t disable_peer(int peer) {
  if (!is_device(peer)) return hipErrorInvalidDevice;
  return current_context().peers[peer].exchange(false) ? hipSuccess : hipErrorPeerAccessNotEnabled;
}

}  // namespace

bool is_device(int device) { return device >= 0 && device < flags().devices; }

int current_device() { return current; }

void set_current_device(int device) { current = device; }

hipCtx_t primary_context(int device) { return &contexts()[device]; }

hipError_t reset_device(int device) {
  if (const hipError_t error = capture_forbids_device_sync()) return error;
  Scheduler::get().wait_device(device);
  destroy_streams(device);
  unload_modules(device);
  pool_release_unused();
  free_all(device);
  Scheduler::get().revive(device);
  return hipSuccess;
}

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

hipError_t hipDeviceCanAccessPeer(int *can, int device, int peer) {
  return api([&] {
    if (!can) return hipErrorInvalidValue;
    if (!is_device(device) || !is_device(peer)) return hipErrorInvalidDevice;
    *can = device != peer;
    return hipSuccess;
  });
}

hipError_t hipDeviceEnablePeerAccess(int peer, unsigned int flags) {
  return api([&] { return enable_peer(peer, flags); });
}

hipError_t hipDeviceDisablePeerAccess(int peer) {
  return api([&] { return disable_peer(peer); });
}

hipError_t hipDeviceGetP2PAttribute(int *value, hipDeviceP2PAttr attribute, int source, int target) {
  return api([&] {
    if (!value) return hipErrorInvalidValue;
    if (!is_device(source) || !is_device(target) || source == target) return hipErrorInvalidDevice;
    switch (attribute) {
      case hipDevP2PAttrPerformanceRank:
      case hipDevP2PAttrHipArrayAccessSupported:
        *value = 0;
        return hipSuccess;
      case hipDevP2PAttrAccessSupported:
      case hipDevP2PAttrNativeAtomicSupported:
        *value = 1;
        return hipSuccess;
    }
    return hipErrorInvalidValue;
  });
}

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
    ihipCtx_t &context = contexts()[device];
    int held = context.retained;
    while (held > 0 && !context.retained.compare_exchange_weak(held, held - 1)) continue;
    return hipSuccess;
  });
}

hipError_t hipDevicePrimaryCtxReset(hipDevice_t device) {
  return api([&] { return is_device(device) ? reset_device(device) : hipErrorInvalidDevice; });
}

hipError_t hipDevicePrimaryCtxGetState(hipDevice_t device, unsigned int *flags, int *active) {
  return api([&] {
    if (!is_device(device)) return hipErrorInvalidDevice;
    if (!flags || !active) return hipErrorInvalidValue;
    *flags = contexts()[device].flags;
    *active = device == current_device() || contexts()[device].retained > 0;
    return hipSuccess;
  });
}

hipError_t hipDevicePrimaryCtxSetFlags(hipDevice_t device, unsigned int flags) {
  return api([&] {
    if (!is_device(device)) return hipErrorInvalidDevice;
    if (!are_device_flags(flags)) return hipErrorInvalidValue;
    contexts()[device].flags = flags;
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
    // A context that is current leaves the way it came.
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

hipError_t hipCtxSynchronize() {
  return api([&] { return synchronize(); });
}

hipError_t hipCtxGetCacheConfig(hipFuncCache_t *config) { return hipDeviceGetCacheConfig(config); }

hipError_t hipCtxSetCacheConfig(hipFuncCache_t config) { return hipDeviceSetCacheConfig(config); }

hipError_t hipCtxGetSharedMemConfig(hipSharedMemConfig *config) { return hipDeviceGetSharedMemConfig(config); }

hipError_t hipCtxSetSharedMemConfig(hipSharedMemConfig config) { return hipDeviceSetSharedMemConfig(config); }

hipError_t hipCtxEnablePeerAccess(hipCtx_t peer, unsigned int flags) {
  return api([&] { return is_context(peer) ? enable_peer(peer->device, flags) : hipErrorInvalidContext; });
}

hipError_t hipCtxDisablePeerAccess(hipCtx_t peer) {
  return api([&] { return is_context(peer) ? disable_peer(peer->device) : hipErrorInvalidContext; });
}
