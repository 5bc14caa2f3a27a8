// HIP's functions that allocate, free and register memory.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>

#include "flags.h"
#include "graph/capture_rules.h"
#include "graph/graph_memory.h"
#include "quirks/quirks.h"
#include "runtime/device.h"
#include "runtime/imported_memory.h"
#include "runtime/memory.h"
#include "runtime/pool.h"
#include "runtime/scheduler.h"
#include "runtime/status.h"

namespace cpu {
namespace {

hipError_t allocate(void **out, size_t size, MemoryKind kind, unsigned flags) {
  if (!out) return hipErrorInvalidValue;
  if (const hipError_t error = capture_forbids_alloc()) return error;
  const int device = current_device();
  if (const hipError_t error = Scheduler::get().lost(device)) return error;
  *out = nullptr;
  if (size == 0) return hipSuccess;
  void *base = nullptr;
  if (is_device_memory(kind)) {
    if (const hipError_t error = reserve(device, size, &base)) return error;
  } else if (size > SIZE_MAX - kMemoryAlignment ||
             !(base = std::aligned_alloc(kMemoryAlignment, round_to_alignment(size)))) {
    return hipErrorOutOfMemory;
  }
  show(base, size, kind, device, flags, nullptr);
  *out = base;
  return hipSuccess;
}

hipError_t free_memory(void *base, KindTest wanted) {
  if (const hipError_t error = capture_forbids_alloc()) return error;
  if (!base) return hipSuccess;
  const std::optional<Allocation> found = find_allocation(base);
  if (!found || found->base != base || !wanted(found->kind)) return hipErrorInvalidValue;
  // HIP waits for the device before it frees. An earlier failure there is not this call's to report.
  Scheduler::get().wait_device(found->device);
  const std::optional<Allocation> taken = take_allocation(base, wanted);
  if (!taken) return hipErrorInvalidValue;
  release(*taken);
  return hipSuccess;
}

bool is_own_memory(MemoryKind kind) { return is_device_memory(kind) || kind == MemoryKind::Host; }

hipError_t free_device(void *base) {
  const std::optional<Allocation> found = find_allocation(base);
  if (found && found->kind == MemoryKind::Pool) {
    if (const hipError_t error = capture_forbids_alloc()) return error;
    if (const std::shared_ptr<Work> work = make_graph_free(base)) return work->run();
    return pool_free_now(base) ? hipSuccess : hipErrorInvalidValue;
  }
  if (found && found->kind == MemoryKind::Imported) {
    if (const hipError_t error = capture_forbids_alloc()) return error;
    Scheduler::get().wait_device(found->device);
    return take_import(base, true) ? hipSuccess : hipErrorInvalidValue;
  }
  // CLR frees whatever it knows by either name (ihipFree, hip_memory.cpp:70 of ROCm/clr @f9f995c6d).
  const bool takes_host = quirk(Quirk::FreeTakesHostMemory);
  return free_memory(base, takes_host ? is_own_memory : is_device_memory);
}

hipError_t free_host(void *base) {
  return free_memory(base, [](MemoryKind kind) { return kind == MemoryKind::Host; });
}

hipError_t allocate_host(void **out, size_t size, unsigned flags) {
  constexpr unsigned kKnown = hipHostMallocPortable | hipHostMallocMapped | hipHostMallocWriteCombined |
                              hipHostMallocNumaUser | hipHostMallocCoherent | hipHostMallocNonCoherent;
  constexpr unsigned kBoth = hipHostMallocCoherent | hipHostMallocNonCoherent;
  if ((flags & ~kKnown) || (flags & kBoth) == kBoth) return hipErrorInvalidValue;
  return allocate(out, size, MemoryKind::Host, flags);
}

hipError_t allocate_pitched(void **out, size_t *pitch, size_t width, size_t height, size_t depth) {
  if (!out || !pitch) return hipErrorInvalidValue;
  if (width > SIZE_MAX - kMemoryAlignment) return hipErrorOutOfMemory;
  *pitch = round_to_alignment(width);
  size_t size = 0;
  if (__builtin_mul_overflow(*pitch, height, &size) || __builtin_mul_overflow(size, depth, &size)) {
    return hipErrorOutOfMemory;
  }
  const hipError_t error = allocate(out, size, MemoryKind::Device, 0);
  if (!error && *out) note_shape(*out, {*pitch, width, height});
  return error;
}

bool is_registered(MemoryKind kind) { return kind == MemoryKind::Registered; }

hipError_t register_host(void *base, size_t size, unsigned flags) {
  constexpr unsigned kKnown = hipHostRegisterPortable | hipHostRegisterMapped | hipHostRegisterIoMemory |
                              hipExtHostRegisterCoarseGrained;
  if (!base || size == 0 || (flags & ~kKnown)) return hipErrorInvalidValue;
  if (const hipError_t error = capture_forbids_alloc()) return error;
  if (!is_mapped(base, size)) return hipErrorInvalidValue;
  if (quirk(Quirk::RegisterTwice)) {
    take_allocation(base, is_registered);  // the later registration takes its place (hip_memory.cpp:1320 of ROCm/clr @f9f995c6d)
  }
  const bool is_new = show_unknown(base, size, MemoryKind::Registered, current_device(), flags);
  return is_new ? hipSuccess : hipErrorHostMemoryAlreadyRegistered;
}

hipError_t unregister_host(void *base) {
  if (const hipError_t error = capture_forbids_alloc()) return error;
  if (!base) return hipErrorInvalidValue;
  const std::optional<Allocation> found = find_allocation(base);
  if (!found || found->base != base || !is_registered(found->kind)) return hipErrorHostMemoryNotRegistered;
  Scheduler::get().wait_device(found->device);
  return take_allocation(base, is_registered) ? hipSuccess : hipErrorHostMemoryNotRegistered;
}

}  // namespace
}  // namespace cpu

using namespace cpu;

hipError_t hipMalloc(void **ptr, size_t size) {
  return api([&] { return allocate(ptr, size, MemoryKind::Device, hipDeviceMallocDefault); });
}

hipError_t hipExtMallocWithFlags(void **ptr, size_t size, unsigned int flags) {
  return api([&] {
    const bool known = flags == hipDeviceMallocDefault || flags == hipDeviceMallocFinegrained || flags == hipDeviceMallocUncached;
    // Signal memory holds one 64-bit value.
    const bool signal = flags == hipMallocSignalMemory && size == sizeof(uint64_t);
    return known || signal ? allocate(ptr, size, MemoryKind::Device, flags) : hipErrorInvalidValue;
  });
}

hipError_t hipFree(void *ptr) {
  return api([&] { return free_device(ptr); });
}

hipError_t hipMallocManaged(void **ptr, size_t size, unsigned int flags) {
  return api([&] {
    const bool known = flags == hipMemAttachGlobal || flags == hipMemAttachHost;
    // Unlike the other calls, this one takes no size of zero (hip_hmm.cpp:71 of ROCm/clr @f9f995c6d).
    return known && size ? allocate(ptr, size, MemoryKind::Managed, flags) : hipErrorInvalidValue;
  });
}

hipError_t hipMallocPitch(void **ptr, size_t *pitch, size_t width, size_t height) {
  return api([&] { return allocate_pitched(ptr, pitch, width, height, 1); });
}

hipError_t hipMemAllocPitch(hipDeviceptr_t *ptr, size_t *pitch, size_t width, size_t height, unsigned int element) {
  return api([&] {
    const bool known = element == 4 || element == 8 || element == 16;
    return known ? allocate_pitched(ptr, pitch, width, height, 1) : hipErrorInvalidValue;
  });
}

hipError_t hipMalloc3D(hipPitchedPtr *out, hipExtent extent) {
  return api([&] {
    if (!out) return hipErrorInvalidValue;
    hipPitchedPtr made{nullptr, 0, extent.width, extent.height};
    const hipError_t error = allocate_pitched(&made.ptr, &made.pitch, extent.width, extent.height, extent.depth);
    if (!error) *out = made;
    return error;
  });
}

hipError_t hipHostMalloc(void **ptr, size_t size, unsigned int flags) {
  return api([&] { return allocate_host(ptr, size, flags); });
}

hipError_t hipHostAlloc(void **ptr, size_t size, unsigned int flags) {
  return api([&] { return allocate_host(ptr, size, flags); });
}

hipError_t hipExtHostAlloc(void **ptr, size_t size, unsigned int flags) { return hipHostMalloc(ptr, size, flags); }

hipError_t hipMallocHost(void **ptr, size_t size) {
  return api([&] { return allocate_host(ptr, size, hipHostMallocDefault); });
}

hipError_t hipMemAllocHost(void **ptr, size_t size) {
  return api([&] { return allocate_host(ptr, size, hipHostMallocDefault); });
}

hipError_t hipHostFree(void *ptr) {
  return api([&] { return free_host(ptr); });
}

hipError_t hipFreeHost(void *ptr) {
  return api([&] { return free_host(ptr); });
}

hipError_t hipHostRegister(void *ptr, size_t size, unsigned int flags) {
  return api([&] { return register_host(ptr, size, flags); });
}

hipError_t hipHostUnregister(void *ptr) {
  return api([&] { return unregister_host(ptr); });
}

hipError_t hipMemGetInfo(size_t *free, size_t *total) {
  return api([&] {
    if (!free && !total) return hipErrorInvalidValue;
    const size_t limit = flags().memory_bytes;
    if (free) *free = limit - std::min(limit, reserved_bytes(current_device()));
    if (total) *total = limit;
    return hipSuccess;
  });
}
