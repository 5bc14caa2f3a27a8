#include "runtime/memory.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "flags.h"
#include "graph/capture.h"
#include "runtime/device.h"
#include "runtime/pool.h"
#include "runtime/scheduler.h"
#include "runtime/status.h"

namespace cpu {
namespace {

constexpr size_t kAlignment = 256;

struct Registry {
  mutable std::shared_mutex lock;
  std::map<uintptr_t, Allocation> by_base;
  unsigned long long last_id = 0;
};

Registry &registry() {
  static Registry &all = *new Registry;
  return all;
}

std::atomic<size_t> reserved[kMaxDevices];

uintptr_t number(const void *address) { return reinterpret_cast<uintptr_t>(address); }

size_t round_up(size_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

// The allocation that contains the address; the caller holds the lock.
const Allocation *find_locked(const Registry &all, const void *address) {
  auto it = all.by_base.upper_bound(number(address));
  if (it == all.by_base.begin()) return nullptr;
  const Allocation &before = (--it)->second;
  return number(address) - it->first < before.size ? &before : nullptr;
}

// Whether any known range overlaps; the caller holds the lock.
bool overlaps_locked(const Registry &all, const void *base, size_t size) {
  const auto it = all.by_base.lower_bound(number(base));
  return find_locked(all, base) || (it != all.by_base.end() && it->first - number(base) < size);
}

void add_locked(Registry &all, Allocation allocation) {
  allocation.id = ++all.last_id;
  all.by_base[number(allocation.base)] = allocation;
}

// Remove the allocation that starts at base, if it is of one of these kinds: of two threads that free it one wins.
template <class Wanted>
std::optional<Allocation> take(const void *base, Wanted &&wanted) {
  Registry &all = registry();
  const std::lock_guard lock(all.lock);
  const auto it = all.by_base.find(number(base));
  if (it == all.by_base.end() || !wanted(it->second.kind)) return std::nullopt;
  const Allocation found = it->second;
  all.by_base.erase(it);
  return found;
}

// Host memory is not the device's: it does not count against its size.
bool counts(MemoryKind kind) { return kind == MemoryKind::Device || kind == MemoryKind::Managed; }

bool owned(MemoryKind kind) { return counts(kind) || kind == MemoryKind::Host; }

void release(const Allocation &allocation) {
  if (counts(allocation.kind)) {
    unreserve(allocation.device, allocation.base, allocation.size);
  } else {
    std::free(allocation.base);
  }
}

hipError_t allocate(void **out, size_t size, MemoryKind kind, unsigned flags) {
  if (!out) return hipErrorInvalidValue;
  if (const hipError_t error = capture_forbids_alloc()) return error;
  const int device = current_device();
  if (const hipError_t error = Scheduler::get().lost(device)) return error;
  *out = nullptr;
  if (size == 0) return hipSuccess;
  void *base = nullptr;
  if (counts(kind)) {
    if (const hipError_t error = reserve(device, size, &base)) return error;
  } else if (size > SIZE_MAX - kAlignment || !(base = std::aligned_alloc(kAlignment, round_up(size)))) {
    return hipErrorOutOfMemory;
  }
  show(base, size, kind, device, flags, nullptr);
  *out = base;
  return hipSuccess;
}

template <class Wanted>
hipError_t free_memory(void *base, Wanted &&wanted) {
  if (const hipError_t error = capture_forbids_alloc()) return error;
  if (!base) return hipSuccess;
  const std::optional<Allocation> found = find_allocation(base);
  if (!found || found->base != base || !wanted(found->kind)) return hipErrorInvalidValue;
  // HIP waits for the device before it frees; an earlier failure there is not this call's.
  Scheduler::get().wait_device(found->device);
  const std::optional<Allocation> taken = take(base, wanted);
  if (!taken) return hipErrorInvalidValue;
  release(*taken);
  return hipSuccess;
}

hipError_t free_device(void *base) {
  const std::optional<Allocation> found = find_allocation(base);
  if (found && found->kind == MemoryKind::Pool) {
    if (const hipError_t error = capture_forbids_alloc()) return error;
    return pool_free_now(base) ? hipSuccess : hipErrorInvalidValue;
  }
  return free_memory(base, counts);
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
  if (width > SIZE_MAX - kAlignment) return hipErrorOutOfMemory;
  *pitch = round_up(width);
  size_t size = 0;
  if (__builtin_mul_overflow(*pitch, height, &size) || __builtin_mul_overflow(size, depth, &size)) {
    return hipErrorOutOfMemory;
  }
  return allocate(out, size, MemoryKind::Device, 0);
}

hipError_t register_host(void *base, size_t size, unsigned flags) {
  constexpr unsigned kKnown = hipHostRegisterPortable | hipHostRegisterMapped | hipHostRegisterIoMemory |
                              hipExtHostRegisterCoarseGrained;
  if (!base || size == 0 || (flags & ~kKnown)) return hipErrorInvalidValue;
  if (const hipError_t error = capture_forbids_alloc()) return error;
  Registry &all = registry();
  const std::lock_guard lock(all.lock);
  if (overlaps_locked(all, base, size)) return hipErrorHostMemoryAlreadyRegistered;
  add_locked(all, {base, size, MemoryKind::Registered, current_device(), flags, nullptr, 0});
  return hipSuccess;
}

hipError_t unregister_host(void *base) {
  if (const hipError_t error = capture_forbids_alloc()) return error;
  if (!base) return hipErrorInvalidValue;
  const auto registered = [](MemoryKind kind) { return kind == MemoryKind::Registered; };
  const std::optional<Allocation> found = find_allocation(base);
  if (!found || found->base != base || !registered(found->kind)) return hipErrorHostMemoryNotRegistered;
  Scheduler::get().wait_device(found->device);
  return take(base, registered) ? hipSuccess : hipErrorHostMemoryNotRegistered;
}

}  // namespace

hipError_t reserve(int device, size_t size, void **out) {
  const size_t limit = flags().memory_bytes;
  const size_t before = reserved[device].fetch_add(size);
  void *base = nullptr;
  if (size <= limit && before <= limit - size) base = std::aligned_alloc(kAlignment, round_up(size));
  if (!base) reserved[device].fetch_sub(size);
  *out = base;
  return base ? hipSuccess : hipErrorOutOfMemory;
}

void unreserve(int device, void *base, size_t size) {
  std::free(base);
  reserved[device].fetch_sub(size);
}

void poison(void *base, size_t size) { std::memset(base, 0xFB, size); }

size_t reserved_bytes(int device) { return reserved[device].load(); }

void show(void *base, size_t size, MemoryKind kind, int device, unsigned flags, hipMemPool_t pool) {
  Registry &all = registry();
  const std::lock_guard lock(all.lock);
  add_locked(all, {base, size, kind, device, flags, pool, 0});
}

bool hide(void *base) {
  return take(base, [](MemoryKind) { return true; }).has_value();
}

std::optional<Allocation> find_allocation(const void *address) {
  const Registry &all = registry();
  const std::shared_lock lock(all.lock);
  const Allocation *found = find_locked(all, address);
  return found ? std::optional<Allocation>(*found) : std::nullopt;
}

bool in_bounds(const void *address, size_t size) {
  if (size == 0) return true;
  if (!address || size > SIZE_MAX - number(address)) return false;
  const std::optional<Allocation> found = find_allocation(address);
  return !found || size <= found->size - (number(address) - number(found->base));
}

bool is_pageable(const void *address) { return !find_allocation(address); }

void free_all(int device) {
  std::vector<Allocation> gone;
  Registry &all = registry();
  {
    const std::lock_guard lock(all.lock);
    for (auto it = all.by_base.begin(); it != all.by_base.end();) {
      const bool mine = it->second.device == device && owned(it->second.kind);
      if (mine) gone.push_back(it->second);
      it = mine ? all.by_base.erase(it) : std::next(it);
    }
  }
  for (const Allocation &allocation : gone) release(allocation);
}

}  // namespace cpu

using namespace cpu;

hipError_t hipMalloc(void **ptr, size_t size) {
  return api([&] { return allocate(ptr, size, MemoryKind::Device, hipDeviceMallocDefault); });
}

hipError_t hipExtMallocWithFlags(void **ptr, size_t size, unsigned int flags) {
  return api([&] {
    const bool known = flags == hipDeviceMallocDefault || flags == hipDeviceMallocFinegrained;
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
    return known ? allocate(ptr, size, MemoryKind::Managed, flags) : hipErrorInvalidValue;
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
