// Device properties and attributes: the host, described in a GPU's words.
#pragma once

#include <optional>

#include "hip/hip_runtime_api.h"

namespace cpu {

// What the device says about itself.
const hipDeviceProp_t &properties(int device);
// One of the attributes, most of which the properties hold under a name; nothing if HIP has no such attribute.
std::optional<int> device_attribute(hipDeviceAttribute_t which, int device);

}  // namespace cpu
