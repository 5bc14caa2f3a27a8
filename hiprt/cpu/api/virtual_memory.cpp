// HIP's functions of virtual memory. CLR's hip_vm.cpp has the rules and the codes.
#include "runtime/virtual_memory.h"

#include <fcntl.h>

#include <cstring>

#include "runtime/device.h"
#include "runtime/memory.h"
#include "runtime/scheduler.h"
#include "runtime/status.h"

namespace cpu {
namespace {

bool is_place(const hipMemLocation &place) { return place.type == hipMemLocationTypeDevice && is_device(place.id); }

bool is_property(const hipMemAllocationProp *prop) {
  return prop && prop->type == hipMemAllocationTypePinned && is_place(prop->location);
}

hipError_t create(hipMemGenericAllocationHandle_t *out, size_t size, const hipMemAllocationProp *prop) {
  if (!out || size == 0 || !is_property(prop)) return hipErrorInvalidValue;
  if (prop->requestedHandleType != hipMemHandleTypeNone && prop->requestedHandleType != hipMemHandleTypePosixFileDescriptor) {
    return hipErrorNotSupported;
  }
  const int device = prop->location.id;
  if (size > memory_size()) return hipErrorOutOfMemory;
  if (size % page_size()) return hipErrorInvalidValue;
  if (!count_memory(device, size)) return hipErrorOutOfMemory;
  std::shared_ptr<MemoryFile> file = MemoryFile::make(size);
  if (!file) return uncount_memory(device, size), hipErrorOutOfMemory;
  return add_physical(out, std::make_shared<PhysicalMemory>(std::move(file), *prop, true));
}

hipError_t export_file(void *out, hipMemGenericAllocationHandle_t handle, hipMemAllocationHandleType type) {
  const std::shared_ptr<PhysicalMemory> memory = find_physical(handle);
  if (!out || !memory || memory->properties.requestedHandleType != type || type != hipMemHandleTypePosixFileDescriptor) {
    return hipErrorInvalidValue;
  }
  const int descriptor = fcntl(memory->file->descriptor, F_DUPFD_CLOEXEC, 0);
  if (descriptor < 0) return hipErrorOutOfMemory;
  std::memcpy(out, &descriptor, sizeof descriptor);
  return hipSuccess;
}

// HIP 6 takes the address of a file's number, and HIP 7 the number: no address is as small as that.
int descriptor_in(const void *handle) {
  constexpr uintptr_t kMostFiles = 1 << 20;
  const auto number = reinterpret_cast<uintptr_t>(handle);
  int descriptor = static_cast<int>(number);
  if (number >= kMostFiles) std::memcpy(&descriptor, handle, sizeof descriptor);
  return descriptor;
}

hipError_t import_file(hipMemGenericAllocationHandle_t *out, const void *handle, hipMemAllocationHandleType type) {
  if (!out || !handle || type != hipMemHandleTypePosixFileDescriptor) return hipErrorInvalidValue;
  const int own = fcntl(descriptor_in(handle), F_DUPFD_CLOEXEC, 0);
  std::shared_ptr<MemoryFile> file = MemoryFile::adopt(own);
  if (!file) return hipErrorInvalidValue;
  hipMemAllocationProp prop{};
  prop.type = hipMemAllocationTypePinned;
  prop.requestedHandleType = type;
  prop.location = {hipMemLocationTypeDevice, current_device()};
  return add_physical(out, std::make_shared<PhysicalMemory>(std::move(file), prop, false));
}

hipError_t set_access(void *base, size_t size, const hipMemAccessDesc *desc, size_t count) {
  if (!base || size == 0 || !desc || count == 0) return hipErrorInvalidValue;
  for (size_t i = 0; i < count; ++i) {
    const hipMemAccessFlags flags = desc[i].flags;
    const bool known = flags == hipMemAccessFlagsProtNone || flags == hipMemAccessFlagsProtRead || flags == hipMemAccessFlagsProtReadWrite;
    if (!known || !is_place(desc[i].location)) return hipErrorInvalidValue;
  }
  for (size_t i = 0; i < count; ++i) {
    if (const hipError_t error = cpu::set_access(base, size, desc[i].location.id, desc[i].flags)) return error;
  }
  return hipSuccess;
}

}  // namespace
}  // namespace cpu

using namespace cpu;

hipError_t hipMemAddressReserve(void **ptr, size_t size, size_t alignment, void *addr, unsigned long long flags) {
  return api([&] { return ptr && flags == 0 ? reserve_addresses(ptr, size, alignment, addr) : hipErrorInvalidValue; });
}

hipError_t hipMemAddressFree(void *devPtr, size_t size) {
  return api([&] { return devPtr && size ? free_addresses(devPtr, size) : hipErrorInvalidValue; });
}

hipError_t hipMemCreate(hipMemGenericAllocationHandle_t *handle, size_t size, const hipMemAllocationProp *prop,
                        unsigned long long flags) {
  return api([&] { return flags == 0 ? create(handle, size, prop) : hipErrorInvalidValue; });
}

hipError_t hipMemRelease(hipMemGenericAllocationHandle_t handle) {
  return api([&] { return release_physical(handle); });
}

hipError_t hipMemMap(void *ptr, size_t size, size_t offset, hipMemGenericAllocationHandle_t handle,
                     unsigned long long flags) {
  return api([&] {
    const bool known = ptr && size && offset == 0 && flags == 0;
    return known ? map_physical(ptr, size, handle) : hipErrorInvalidValue;
  });
}

hipError_t hipMemUnmap(void *ptr, size_t size) {
  return api([&] {
    const std::optional<Allocation> found = find_allocation(ptr);
    if (!found || found->kind != MemoryKind::Mapped) return hipErrorInvalidValue;
    // What was queued may still use the mapping. An earlier failure there is not this call's to report.
    Scheduler::get().wait_device(found->device);
    return unmap_physical(ptr, size);
  });
}

hipError_t hipMemSetAccess(void *ptr, size_t size, const hipMemAccessDesc *desc, size_t count) {
  return api([&] { return set_access(ptr, size, desc, count); });
}

hipError_t hipMemGetAccess(unsigned long long *flags, const hipMemLocation *location, void *ptr) {
  return api([&] {
    hipMemAccessFlags found{};
    if (!flags || !location || !ptr || !is_place(*location)) return hipErrorInvalidValue;
    const hipError_t error = get_access(ptr, location->id, &found);
    if (!error) *flags = found;
    return error;
  });
}

hipError_t hipMemGetAllocationGranularity(size_t *granularity, const hipMemAllocationProp *prop,
                                          hipMemAllocationGranularity_flags option) {
  return api([&] {
    const bool known = option == hipMemAllocationGranularityMinimum || option == hipMemAllocationGranularityRecommended;
    if (!granularity || !is_property(prop) || !known) return hipErrorInvalidValue;
    *granularity = page_size();
    return hipSuccess;
  });
}

hipError_t hipMemGetAllocationPropertiesFromHandle(hipMemAllocationProp *prop, hipMemGenericAllocationHandle_t handle) {
  return api([&] {
    const std::shared_ptr<PhysicalMemory> memory = find_physical(handle);
    if (!prop || !memory) return hipErrorInvalidValue;
    *prop = memory->properties;
    return hipSuccess;
  });
}

hipError_t hipMemRetainAllocationHandle(hipMemGenericAllocationHandle_t *handle, void *addr) {
  return api([&] { return handle && addr ? retain_physical(handle, addr) : hipErrorInvalidValue; });
}

hipError_t hipMemExportToShareableHandle(void *shareableHandle, hipMemGenericAllocationHandle_t handle,
                                         hipMemAllocationHandleType handleType, unsigned long long flags) {
  return api([&] { return flags == 0 ? export_file(shareableHandle, handle, handleType) : hipErrorInvalidValue; });
}

hipError_t hipMemImportFromShareableHandle(hipMemGenericAllocationHandle_t *handle, void *osHandle,
                                           hipMemAllocationHandleType shHandleType) {
  return api([&] { return import_file(handle, osHandle, shHandleType); });
}

// CLR has no sparse arrays either.
hipError_t hipMemMapArrayAsync(hipArrayMapInfo *mapInfoList, unsigned int count, hipStream_t) {
  return api([&] { return mapInfoList && count ? hipErrorNotSupported : hipErrorInvalidValue; });
}
