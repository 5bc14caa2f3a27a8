// HIP's functions that ask what a device is.
#include <cstdio>
#include <cstring>
#include <optional>

#include "runtime/device.h"
#include "runtime/properties.h"
#include "runtime/status.h"

using namespace cpu;

hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_t *out, int device) {
  return api([&] {
    if (!out) return hipErrorInvalidValue;
    if (!is_device(device)) return hipErrorInvalidDevice;
    *out = properties(device);
    return hipSuccess;
  });
}

hipError_t hipDeviceGetAttribute(int *out, hipDeviceAttribute_t which, int device) {
  return api([&] {
    if (!out) return hipErrorInvalidValue;
    if (!is_device(device)) return hipErrorInvalidDevice;
    const std::optional<int> value = device_attribute(which, device);
    if (!value) return hipErrorInvalidValue;
    *out = *value;
    return hipSuccess;
  });
}

hipError_t hipDeviceGetName(char *name, int length, hipDevice_t device) {
  return api([&] {
    if (!is_device(device)) return hipErrorInvalidDevice;
    if (!name || length <= 0) return hipErrorInvalidValue;
    std::snprintf(name, static_cast<size_t>(length), "%s", properties(device).name);
    return hipSuccess;
  });
}

hipError_t hipDeviceGetUuid(hipUUID *uuid, hipDevice_t device) {
  return api([&] {
    if (!is_device(device)) return hipErrorInvalidDevice;
    if (!uuid) return hipErrorInvalidValue;
    *uuid = properties(device).uuid;
    return hipSuccess;
  });
}

hipError_t hipDeviceComputeCapability(int *major, int *minor, hipDevice_t device) {
  return api([&] {
    if (!is_device(device)) return hipErrorInvalidDevice;
    if (!major || !minor) return hipErrorInvalidValue;
    *major = properties(device).major;
    *minor = properties(device).minor;
    return hipSuccess;
  });
}

hipError_t hipDeviceTotalMem(size_t *bytes, hipDevice_t device) {
  return api([&] {
    if (!is_device(device)) return hipErrorInvalidDevice;
    if (!bytes) return hipErrorInvalidValue;
    *bytes = properties(device).totalGlobalMem;
    return hipSuccess;
  });
}

hipError_t hipDeviceGetPCIBusId(char *text, int length, int device) {
  return api([&] {
    if (!is_device(device)) return hipErrorInvalidDevice;
    char id[sizeof("0000:00:00.0") + 8];
    const hipDeviceProp_t &p = properties(device);
    const int size = std::snprintf(id, sizeof(id), "%04x:%02x:%02x.0", static_cast<unsigned>(p.pciDomainID & 0xFFFF),
                                   static_cast<unsigned>(p.pciBusID & 0xFF),
                                   static_cast<unsigned>(p.pciDeviceID & 0xFF));
    if (!text || length <= size) return hipErrorInvalidValue;
    std::memcpy(text, id, static_cast<size_t>(size) + 1);
    return hipSuccess;
  });
}

hipError_t hipDeviceGetByPCIBusId(int *device, const char *text) {
  return api([&] {
    unsigned domain = 0;
    unsigned bus = 0;
    unsigned slot = 0;
    if (!device || !text || std::sscanf(text, "%4x:%2x:%2x", &domain, &bus, &slot) != 3) return hipErrorInvalidValue;
    if (domain != 0 || slot != 0 || !is_device(static_cast<int>(bus))) return hipErrorInvalidDevice;
    *device = static_cast<int>(bus);
    return hipSuccess;
  });
}

hipError_t hipChooseDeviceR0600(int *device, const hipDeviceProp_t *wanted) {
  return api([&] {
    if (!device || !wanted) return hipErrorInvalidValue;
    if (!is_device(0)) return hipErrorNoDevice;
    // All devices are the same host.
    *device = 0;
    return hipSuccess;
  });
}
