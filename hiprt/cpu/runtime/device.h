// Devices: the host's cores, shown once or (HIPRT_CPU_DEVICES) several times; the current one is per thread.
#pragma once

#include "hip/hip_runtime_api.h"

namespace cpu {

// Limits that launches are checked against; also what the properties report.
constexpr uint32_t kWarpSize = 32;
constexpr uint32_t kMaxThreadsPerBlock = 1024;
constexpr uint32_t kMaxThreadsPerMultiprocessor = 2048;
constexpr uint32_t kMaxBlocksPerMultiprocessor = 32;
constexpr uint32_t kMaxGridX = 0x7FFFFFFF;
constexpr uint32_t kMaxGridYZ = 65535;
constexpr uint32_t kSharedMemory = 64 * 1024;

bool is_device(int device);
// The calling thread's device; 0 until it calls hipSetDevice.
int current_device();
void set_current_device(int device);
// What the device says about itself.
const hipDeviceProp_t &properties(int device);
hipCtx_t primary_context(int device);
// Free all that belongs to a device and make it usable again.
hipError_t reset_device(int device);

}  // namespace cpu
