// HIP's functions of the memory that graphs hold.
#include <cstddef>

#include "enumerator.h"
#include "graph/graph_memory.h"
#include "runtime/device.h"
#include "runtime/status.h"

using namespace cpu;

hipError_t hipDeviceGetGraphMemAttribute(int device, hipGraphMemAttributeType attr, void *value) {
  return api([&]() -> hipError_t {
    if (!is_device(device)) return hipErrorInvalidDevice;
    if (!value) return hipErrorInvalidValue;
    const GraphMemoryUse counters = graph_memory_use(device);
    switch (number_of(attr)) {
      case hipGraphMemAttrUsedMemCurrent: *static_cast<size_t *>(value) = counters.used.now; break;
      case hipGraphMemAttrUsedMemHigh: *static_cast<size_t *>(value) = counters.used.high; break;
      case hipGraphMemAttrReservedMemCurrent: *static_cast<size_t *>(value) = counters.reserved.now; break;
      case hipGraphMemAttrReservedMemHigh: *static_cast<size_t *>(value) = counters.reserved.high; break;
      default: return hipErrorInvalidValue;
    }
    return hipSuccess;
  });
}

hipError_t hipDeviceSetGraphMemAttribute(int device, hipGraphMemAttributeType attr, void *value) {
  return api([&]() -> hipError_t {
    if (!is_device(device)) return hipErrorInvalidDevice;
    const int which = number_of(attr);
    const bool is_high = which == hipGraphMemAttrUsedMemHigh || which == hipGraphMemAttrReservedMemHigh;
    // The value is read only for the attributes that can be set.
    if (!value || !is_high || *static_cast<size_t *>(value) != 0) return hipErrorInvalidValue;
    if (which == hipGraphMemAttrUsedMemHigh) reset_graph_memory_high(device, &GraphMemoryUse::used);
    else reset_graph_memory_high(device, &GraphMemoryUse::reserved);
    return hipSuccess;
  });
}

hipError_t hipDeviceGraphMemTrim(int device) {
  return api([&]() -> hipError_t {
    if (!is_device(device)) return hipErrorInvalidDevice;
    trim_graph_memory(device);
    return hipSuccess;
  });
}
