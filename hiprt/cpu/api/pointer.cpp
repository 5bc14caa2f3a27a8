// HIP's functions that tell about an address: pointer attributes, address ranges, advice on managed memory.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <set>

#include "enumerator.h"
#include "graph/capture_rules.h"
#include "runtime/advice.h"
#include "runtime/array.h"
#include "runtime/device.h"
#include "runtime/memory.h"
#include "runtime/status.h"
#include "runtime/stream.h"

namespace cpu {
namespace {

hipMemoryType type_of(const Allocation &a) {
  switch (a.kind) {
    case MemoryKind::Host:
    case MemoryKind::Registered:
      return hipMemoryTypeHost;
    case MemoryKind::Managed:
      return hipMemoryTypeManaged;
    default:
      return hipMemoryTypeDevice;
  }
}

bool is_host(const Allocation &a) { return type_of(a) == hipMemoryTypeHost; }

hipError_t attributes(hipPointerAttribute_t *out, const void *address) {
  if (!out || !address) return hipErrorInvalidValue;
  void *same = const_cast<void *>(address);
  *out = {hipMemoryTypeUnregistered, hipInvalidDeviceId, nullptr, same, 0, 0};
  const std::optional<Allocation> found = find_allocation(address);
  if (!found) return hipSuccess;
  const bool managed = found->kind == MemoryKind::Managed;
  *out = {type_of(*found), found->device, same, is_host(*found) || managed ? same : nullptr, managed, found->flags};
  return hipSuccess;
}

template <class T>
hipError_t give(void *out, const T &value) {
  std::memcpy(out, &value, sizeof(value));
  return hipSuccess;
}

hipError_t attribute(void *out, hipPointer_attribute which, void *address, const Allocation &a) {
  const bool managed = a.kind == MemoryKind::Managed;
  switch (which) {
    case HIP_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return give(out, type_of(a));
    case HIP_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return give(out, address);
    case HIP_POINTER_ATTRIBUTE_HOST_POINTER:
      return is_host(a) || managed ? give(out, address) : hipErrorInvalidValue;
    case HIP_POINTER_ATTRIBUTE_BUFFER_ID:
      return give(out, a.id);
    case HIP_POINTER_ATTRIBUTE_IS_MANAGED:
      return give(out, managed);
    case HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return give(out, a.device);
    case HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return give(out, a.base);
    case HIP_POINTER_ATTRIBUTE_RANGE_SIZE:
      // 4 bytes, although sizes are longer (CLR's hip_memory.cpp:3997 @f9f995c6d).
      return give(out, static_cast<uint32_t>(std::min<size_t>(a.size, UINT32_MAX)));
    case HIP_POINTER_ATTRIBUTE_MAPPED:
      return give(out, true);
    case HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return give(out, a.syncs);
    case HIP_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return give(out, hipMemAccessFlagsProtReadWrite);
    default:  // CLR answers no others either
      return hipErrorNotSupported;
  }
}

// Returns the bytes of an attribute's value.
size_t value_size(hipPointer_attribute which) {
  switch (which) {
    case HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case HIP_POINTER_ATTRIBUTE_IS_MANAGED:
    case HIP_POINTER_ATTRIBUTE_IS_LEGACY_HIP_IPC_CAPABLE:
    case HIP_POINTER_ATTRIBUTE_MAPPED:
    case HIP_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      return sizeof(bool);
    case HIP_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case HIP_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case HIP_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    case HIP_POINTER_ATTRIBUTE_RANGE_SIZE:
      return sizeof(int);
    default:
      return sizeof(void *);
  }
}

hipError_t attribute(void *out, hipPointer_attribute which, void *address) {
  if (!out || !address) return hipErrorInvalidValue;
  const std::optional<Allocation> found = find_allocation(address);
  if (found) return attribute(out, which, address, *found);
  // Of an array's handle the type can be asked (hip_memory.cpp:ihipPointerGetAttributes of ROCm/clr @f9f995c6d).
  const bool is_type = which == HIP_POINTER_ATTRIBUTE_MEMORY_TYPE;
  return is_type && find_array(static_cast<hipArray_t>(address)) ? give(out, hipMemoryTypeArray) : hipErrorInvalidValue;
}

bool is_place(int device) { return device == hipCpuDeviceId || is_device(device); }

// Returns whether a range may be advised on: it lies within managed memory, or in the host's pageable memory, which the
// device reads as it is.
bool is_range(const void *address, size_t size) {
  if (size == 0 || !in_bounds(address, size)) return false;
  const std::optional<Allocation> found = find_allocation(address);
  return found ? found->kind == MemoryKind::Managed : is_mapped(address, size);
}

hipError_t advise(const void *address, size_t size, hipMemoryAdvise what, int device) {
  if (const hipError_t error = capture_forbids_since_7()) return error;
  const bool is_for_all = what == hipMemAdviseSetReadMostly || what == hipMemAdviseUnsetReadMostly;
  if (!is_for_all && !is_place(device)) return hipErrorInvalidDevice;
  const int number = number_of(what);
  if (!is_range(address, size) || number < hipMemAdviseSetReadMostly || number > hipMemAdviseUnsetCoarseGrain) {
    return hipErrorInvalidValue;
  }
  change_advice(address, size, [&](Advice &advice) {
    switch (what) {
      case hipMemAdviseSetReadMostly:
      case hipMemAdviseUnsetReadMostly: advice.read_mostly = what == hipMemAdviseSetReadMostly; break;
      case hipMemAdviseSetPreferredLocation: advice.preferred = device; break;
      case hipMemAdviseUnsetPreferredLocation: advice.preferred = hipInvalidDeviceId; break;
      case hipMemAdviseSetAccessedBy: advice.accessed_by.insert(device); break;
      case hipMemAdviseUnsetAccessedBy: advice.accessed_by.erase(device); break;
      case hipMemAdviseSetCoarseGrain:
      case hipMemAdviseUnsetCoarseGrain: advice.coarse = what == hipMemAdviseSetCoarseGrain; break;
    }
  });
  return hipSuccess;
}

hipError_t prefetch(const void *address, size_t size, int device, hipStream_t stream) {
  if (!is_place(device)) return hipErrorInvalidDevice;
  if (!is_valid(stream)) return no_such_handle();
  if (!is_range(address, size)) return hipErrorInvalidValue;
  change_advice(address, size, [&](Advice &advice) { advice.prefetched = device; });
  return hipSuccess;
}

// Returns whether writes show on the other side only when a kernel ends: so it is by default for a device's own memory.
bool is_coarse(const void *address, const Advice &advice) {
  const std::optional<Allocation> found = find_allocation(address);
  if (!found || found->kind == MemoryKind::Managed) return advice.coarse;
  return type_of(*found) == hipMemoryTypeDevice && found->flags == hipDeviceMallocDefault;
}

void give_devices(const std::set<int> &devices, int *out, size_t count) {
  auto next = devices.begin();
  for (size_t i = 0; i < count; ++i) out[i] = next == devices.end() ? hipInvalidDeviceId : *next++;
}

hipError_t range_attribute(void *out, size_t size, hipMemRangeAttribute which, const void *address, size_t count) {
  if (!out || size == 0 || size % sizeof(int) != 0) return hipErrorInvalidValue;
  if (which != hipMemRangeAttributeAccessedBy && size != sizeof(int)) return hipErrorInvalidValue;
  // Only this is asked of other memory too.
  const bool asks_any = which == hipMemRangeAttributeCoherencyMode && !is_pageable(address) && count > 0;
  if (asks_any ? !in_bounds(address, count) : !is_range(address, count)) return hipErrorInvalidValue;
  const Advice advice = common_advice(address, count);
  switch (which) {
    case hipMemRangeAttributeReadMostly:
      return give(out, int{advice.read_mostly});
    case hipMemRangeAttributePreferredLocation:
      return give(out, advice.preferred);
    case hipMemRangeAttributeLastPrefetchLocation:
      return give(out, advice.prefetched);
    case hipMemRangeAttributeCoherencyMode:
      return give(out, is_coarse(address, advice) ? hipMemRangeCoherencyModeCoarseGrain : hipMemRangeCoherencyModeFineGrain);
    case hipMemRangeAttributeAccessedBy:
      give_devices(advice.accessed_by, static_cast<int *>(out), size / sizeof(int));
      return hipSuccess;
  }
  return hipErrorInvalidValue;
}

}  // namespace
}  // namespace cpu

using namespace cpu;

hipError_t hipPointerGetAttributes(hipPointerAttribute_t *out, const void *ptr) {
  return api([&] { return attributes(out, ptr); });
}

hipError_t hipPointerGetAttribute(void *data, hipPointer_attribute which, hipDeviceptr_t ptr) {
  return api([&] { return attribute(data, which, ptr); });
}

hipError_t hipDrvPointerGetAttributes(unsigned int count, hipPointer_attribute *which, void **data,
                                      hipDeviceptr_t ptr) {
  return api([&] {
    if (count == 0 || !which || !data || !ptr) return hipErrorInvalidValue;
    for (unsigned i = 0; i < count; ++i) {
      if (!data[i]) return hipErrorInvalidValue;
      // Unlike in the single form, an unknown pointer or attribute is no error and leaves zero.
      if (attribute(data[i], which[i], ptr)) std::memset(data[i], 0, value_size(which[i]));
    }
    return hipSuccess;
  });
}

hipError_t hipPointerSetAttribute(const void *value, hipPointer_attribute which, hipDeviceptr_t ptr) {
  return api([&] {
    if (!value || !ptr || which != HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS) return hipErrorInvalidValue;
    const unsigned syncs = *static_cast<const unsigned *>(value);
    if (syncs > 1) return hipErrorInvalidValue;
    const std::optional<Allocation> found = find_allocation(ptr);
    if (!found) return hipErrorInvalidDevicePointer;
    note_syncs(found->base, syncs);
    return hipSuccess;
  });
}

hipError_t hipMemPtrGetInfo(void *ptr, size_t *size) {
  return api([&] {
    const std::optional<Allocation> found = find_allocation(ptr);
    if (!size || !found) return hipErrorInvalidValue;
    *size = found->size;
    return hipSuccess;
  });
}

hipError_t hipMemGetAddressRange(hipDeviceptr_t *base, size_t *size, hipDeviceptr_t ptr) {
  return api([&] {
    const std::optional<Allocation> found = find_allocation(ptr);
    if (!found) return hipErrorNotFound;
    if (base) *base = found->base;
    if (size) *size = found->size;
    return hipSuccess;
  });
}

hipError_t hipHostGetDevicePointer(void **out, void *ptr, unsigned int flags) {
  return api([&] {
    const std::optional<Allocation> found = find_allocation(ptr);
    if (!out || flags != 0 || !found || !is_host(*found)) return hipErrorInvalidValue;
    *out = ptr;
    return hipSuccess;
  });
}

hipError_t hipHostGetFlags(unsigned int *flags, void *ptr) {
  return api([&] {
    const std::optional<Allocation> found = find_allocation(ptr);
    if (!flags || !found || !is_host(*found)) return hipErrorInvalidValue;
    *flags = found->flags;
    return hipSuccess;
  });
}

hipError_t hipMemAdvise(const void *ptr, size_t count, hipMemoryAdvise advice, int device) {
  return api([&] { return advise(ptr, count, advice, device); });
}

hipError_t hipMemPrefetchAsync(const void *ptr, size_t count, int device, hipStream_t stream) {
  return api([&] { return prefetch(ptr, count, device, stream); });
}

hipError_t hipMemRangeGetAttribute(void *data, size_t size, hipMemRangeAttribute which, const void *ptr,
                                   size_t count) {
  return api([&] { return range_attribute(data, size, which, ptr, count); });
}

hipError_t hipMemRangeGetAttributes(void **data, size_t *sizes, hipMemRangeAttribute *which, size_t number,
                                    const void *ptr, size_t count) {
  return api([&] {
    if (!data || !sizes || !which || number == 0) return hipErrorInvalidValue;
    for (size_t i = 0; i < number; ++i) {
      if (const hipError_t error = range_attribute(data[i], sizes[i], which[i], ptr, count)) return error;
    }
    return hipSuccess;
  });
}

hipError_t hipStreamAttachMemAsync(hipStream_t stream, void *ptr, size_t length, unsigned int flags) {
  return api([&] {
    const bool known = flags == hipMemAttachGlobal || flags == hipMemAttachHost || flags == hipMemAttachSingle;
    if (!is_valid(stream)) return no_such_handle();
    if (!known || (flags == hipMemAttachSingle && !stream)) return hipErrorInvalidValue;
    // Managed memory, attached as a whole, is visible to all streams at all times, which every attachment allows.
    const std::optional<Allocation> found = find_allocation(ptr);
    const bool whole = found && (length == 0 || length == found->size);
    return is_range(ptr, found ? 1 : length) && (whole || !found) ? hipSuccess : hipErrorInvalidValue;
  });
}
