// Device properties and attributes, which describe the host in a GPU's words.
#pragma once

#include <optional>

#include "hip/hip_runtime_api.h"

namespace cpu {

// Returns what the device says about itself.
const hipDeviceProp_t &properties(int device);
// Returns one attribute, most of which the properties hold under a name; nothing if HIP has no such attribute.
std::optional<int> device_attribute(hipDeviceAttribute_t which, int device);

}  // namespace cpu
