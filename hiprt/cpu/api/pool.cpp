// HIP's functions of stream-ordered memory and its pools.
#include <cstdint>
#include <memory>
#include <utility>

#include "enumerator.h"
#include "flags.h"
#include "graph/capture.h"
#include "graph/capture_rules.h"
#include "graph/graph_memory.h"
#include "quirks/quirks.h"
#include "runtime/device.h"
#include "runtime/imported_memory.h"
#include "runtime/pool.h"
#include "runtime/scheduler.h"
#include "runtime/status.h"
#include "runtime/stream.h"
#include "runtime/work.h"

namespace cpu {
namespace {

hipError_t capture_allocation(void **out, size_t size, hipMemPool_t pool, Capture *capture, hipStream_t stream) {
  hipMemAllocNodeParams params{};
  params.bytesize = size;
  const auto read_props = [&](const Pool &found) {
    params.poolProps = found.props;
    return hipSuccess;
  };
  if (const hipError_t error = with_pool(pool, read_props)) return error;
  *out = nullptr;
  if (size == 0) return hipSuccess;
  Action action;
  if (const hipError_t error = make_alloc_action(&params, &action)) return error;
  if (const hipError_t error = capture_add(capture, canonical(stream), std::move(action))) return error;
  *out = params.dptr;
  return hipSuccess;
}

hipError_t malloc_async(void **out, size_t size, hipStream_t stream, const hipMemPool_t *handle) {
  if (!out) return hipErrorInvalidValue;
  const std::shared_ptr<Stream> target = find_stream(stream);
  // Also before HIP 7.0, unlike elsewhere (hip_mempool.cpp:148 of ROCm/clr @f9f995c6d).
  if (!target) return hipErrorInvalidHandle;
  if (is_legacy(stream)) {
    if (const hipError_t error = capture_forbids_legacy()) return error;
  }
  if (const hipError_t error = Scheduler::get().lost(target->device)) return error;
  Capture *capture = target->capture.load(std::memory_order_acquire);
  if (!capture) return pool_allocate(out, size, handle, target->device, stream);
  const hipMemPool_t pool = handle ? *handle : current_pool(target->device);
  return capture_allocation(out, size, pool, capture, stream);
}

hipError_t capture_free(void *address, Capture *capture, hipStream_t stream) {
  Action action;
  if (const hipError_t error = make_free_action(address, &action)) return error;
  return capture_add(capture, canonical(stream), std::move(action));
}

// Ends the mapping of another process's memory where its stream gets there.
struct ImportEndWork : Work {
  explicit ImportEndWork(std::shared_ptr<const Allocation> i) : Work(hipGraphNodeTypeMemFree), import(std::move(i)) {}
  hipError_t run() override {
    import = nullptr;
    return hipSuccess;
  }
  void drop() override { run(); }
  std::shared_ptr<Work> clone() const override { return nullptr; }

  std::shared_ptr<const Allocation> import;
};

hipError_t free_async(void *address, hipStream_t stream) {
  // A null address is an error before HIP 7.0.
  if (!address) return quirk(Quirk::FreeasyncNullError) ? hipErrorInvalidValue : hipSuccess;
  const std::shared_ptr<Stream> target = find_stream(stream);
  if (!target) return hipErrorInvalidHandle;
  if (Capture *capture = target->capture.load(std::memory_order_acquire)) return capture_free(address, capture, stream);
  if (is_legacy(stream)) {
    if (const hipError_t error = capture_forbids_legacy()) return error;
  }
  if (std::shared_ptr<Work> work = make_graph_free(address)) return enqueue(stream, std::move(work));
  if (std::shared_ptr<const Allocation> import = take_import(address, true)) {
    return enqueue(stream, std::make_shared<ImportEndWork>(std::move(import)));
  }
  // What hipMalloc made is freed once the device is idle, as in CLR (hip_mempool.cpp:172 of ROCm/clr @f9f995c6d).
  const std::optional<Allocation> found = find_allocation(address);
  if (found && is_device_memory(found->kind)) return hipFree(address);
  return pool_free(address, stream);
}

bool is_on_device(const hipMemLocation &location) {
  return number_of(location.type) == hipMemLocationTypeDevice && is_device(location.id);
}

bool valid(const hipMemPoolProps &props) {
  return props.allocType == hipMemAllocationTypePinned && is_on_device(props.location);
}

hipError_t create(hipMemPool_t *out, const hipMemPoolProps *props) {
  if (!out || !props || !valid(*props)) return hipErrorInvalidValue;
  const int shared_by = number_of(props->handleTypes);
  if (shared_by != hipMemHandleTypeNone && shared_by != hipMemHandleTypePosixFileDescriptor) return hipErrorNotSupported;
  if (const hipError_t error = capture_forbids_since_7()) return error;
  *out = create_pool(*props);
  return hipSuccess;
}

hipError_t destroy(hipMemPool_t handle) {
  if (const hipError_t error = capture_forbids_since_7()) return error;
  return destroy_pool(handle);
}

hipError_t set_attribute(Pool &pool, int attribute, const void *value) {
  const int flag = *static_cast<const int *>(value);
  switch (attribute) {
    case hipMemPoolReuseFollowEventDependencies: pool.follow_events = flag; return hipSuccess;
    case hipMemPoolReuseAllowOpportunistic: pool.opportunistic = flag; return hipSuccess;
    case hipMemPoolReuseAllowInternalDependencies: pool.internal_waits = flag; return hipSuccess;
    default: break;
  }
  const uint64_t bytes = *static_cast<const uint64_t *>(value);
  switch (attribute) {
    case hipMemPoolAttrReleaseThreshold: pool.threshold = bytes; return hipSuccess;
    case hipMemPoolAttrReservedMemHigh:
      if (bytes != 0) return hipErrorInvalidValue;
      pool.reserved_high = pool.reserved;
      return hipSuccess;
    case hipMemPoolAttrUsedMemHigh:
      if (bytes != 0) return hipErrorInvalidValue;
      pool.used_high = pool.used;
      return hipSuccess;
    default: return hipErrorInvalidValue;
  }
}

hipError_t get_attribute(const Pool &pool, int attribute, void *value) {
  auto *flag = static_cast<int *>(value);
  auto *bytes = static_cast<uint64_t *>(value);
  switch (attribute) {
    case hipMemPoolReuseFollowEventDependencies: *flag = pool.follow_events; return hipSuccess;
    case hipMemPoolReuseAllowOpportunistic: *flag = pool.opportunistic; return hipSuccess;
    case hipMemPoolReuseAllowInternalDependencies: *flag = pool.internal_waits; return hipSuccess;
    case hipMemPoolAttrReleaseThreshold: *bytes = pool.threshold; return hipSuccess;
    case hipMemPoolAttrReservedMemCurrent: *bytes = pool.reserved; return hipSuccess;
    case hipMemPoolAttrReservedMemHigh: *bytes = pool.reserved_high; return hipSuccess;
    case hipMemPoolAttrUsedMemCurrent: *bytes = pool.used; return hipSuccess;
    case hipMemPoolAttrUsedMemHigh: *bytes = pool.used_high; return hipSuccess;
    default: return hipErrorInvalidValue;
  }
}

// Returns why a pool cannot give a device this access, or success.
hipError_t can_grant(const Pool &pool, const hipMemAccessDesc &desc) {
  const int flags = number_of(desc.flags);
  if (number_of(desc.location.type) != hipMemLocationTypeDevice) return hipErrorInvalidValue;
  if (!is_device(desc.location.id)) return hipErrorInvalidDevice;
  const bool both = flags == hipMemAccessFlagsProtReadWrite;
  // A device cannot lose access to its own memory (hip_mempool.cpp:hipMemPoolSetAccess of ROCm/clr @f9f995c6d).
  const bool own = desc.location.id == pool.device();
  if (own && flags == hipMemAccessFlagsProtNone) return hipErrorInvalidDevice;
  const bool known = both || (!own && (flags == hipMemAccessFlagsProtNone || flags == hipMemAccessFlagsProtRead));
  return known ? hipSuccess : hipErrorInvalidValue;
}

// The functions that need a live pool return through this.
template <class Call>
hipError_t pool_call(hipMemPool_t handle, Call call) {
  return api([&] { return with_pool(handle, call); });
}

}  // namespace
}  // namespace cpu

using namespace cpu;

hipError_t hipMallocAsync(void **dev_ptr, size_t size, hipStream_t stream) {
  return api([&] { return malloc_async(dev_ptr, size, stream, nullptr); });
}

hipError_t hipMallocFromPoolAsync(void **dev_ptr, size_t size, hipMemPool_t mem_pool, hipStream_t stream) {
  return api([&] { return malloc_async(dev_ptr, size, stream, &mem_pool); });
}

hipError_t hipFreeAsync(void *dev_ptr, hipStream_t stream) {
  return api([&] { return free_async(dev_ptr, stream); });
}

hipError_t hipMemPoolCreate(hipMemPool_t *mem_pool, const hipMemPoolProps *pool_props) {
  return api([&] { return create(mem_pool, pool_props); });
}

hipError_t hipMemPoolDestroy(hipMemPool_t mem_pool) {
  return api([&] { return destroy(mem_pool); });
}

hipError_t hipMemPoolTrimTo(hipMemPool_t mem_pool, size_t min_bytes_to_hold) {
  return pool_call(mem_pool, [&](Pool &pool) {
    pool_trim(&pool, min_bytes_to_hold);
    return hipSuccess;
  });
}

hipError_t hipMemPoolSetAttribute(hipMemPool_t mem_pool, hipMemPoolAttr attr, void *value) {
  return pool_call(mem_pool, [&](Pool &pool) {
    return value ? set_attribute(pool, number_of(attr), value) : hipErrorInvalidValue;
  });
}

hipError_t hipMemPoolGetAttribute(hipMemPool_t mem_pool, hipMemPoolAttr attr, void *value) {
  return pool_call(mem_pool, [&](Pool &pool) {
    return value ? get_attribute(pool, number_of(attr), value) : hipErrorInvalidValue;
  });
}

hipError_t hipMemPoolSetAccess(hipMemPool_t mem_pool, const hipMemAccessDesc *desc_list, size_t count) {
  return pool_call(mem_pool, [&](Pool &pool) {
    if (!desc_list || count == 0) return hipErrorInvalidValue;
    if (count > static_cast<size_t>(flags().devices)) return hipErrorInvalidDevice;
    for (size_t i = 0; i < count; ++i) {
      if (const hipError_t error = can_grant(pool, desc_list[i])) return error;
    }
    for (size_t i = 0; i < count; ++i) pool.access[desc_list[i].location.id] = desc_list[i].flags;
    return hipSuccess;
  });
}

hipError_t hipMemPoolGetAccess(hipMemAccessFlags *flags, hipMemPool_t mem_pool, hipMemLocation *location) {
  return pool_call(mem_pool, [&](Pool &pool) {
    if (!flags || !location || !is_on_device(*location)) return hipErrorInvalidValue;
    const auto granted = pool.access.find(location->id);
    if (location->id == pool.device()) *flags = hipMemAccessFlagsProtReadWrite;
    else *flags = granted == pool.access.end() ? hipMemAccessFlagsProtNone : granted->second;
    return hipSuccess;
  });
}

hipError_t hipDeviceGetDefaultMemPool(hipMemPool_t *mem_pool, int device) {
  return api([&]() -> hipError_t {
    if (!mem_pool) return hipErrorInvalidValue;
    if (!is_device(device)) return hipErrorInvalidDevice;
    *mem_pool = default_pool(device);
    return hipSuccess;
  });
}

hipError_t hipDeviceSetMemPool(int device, hipMemPool_t mem_pool) {
  return api([&]() -> hipError_t {
    if (!is_device(device)) return hipErrorInvalidDevice;
    if (const hipError_t error = capture_forbids_since_7()) return error;
    return set_current_pool(device, mem_pool);
  });
}

hipError_t hipDeviceGetMemPool(hipMemPool_t *mem_pool, int device) {
  return api([&]() -> hipError_t {
    if (!mem_pool) return hipErrorInvalidValue;
    if (!is_device(device)) return hipErrorInvalidDevice;
    *mem_pool = current_pool(device);
    return hipSuccess;
  });
}
