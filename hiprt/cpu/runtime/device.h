// Devices: the host's cores, shown once or, with HIPRT_CPU_DEVICES, several times. Each thread has a current device.
#pragma once

#include <array>
#include <atomic>

#include "flags.h"
#include "hip/hip_runtime_api.h"

// A context, to which its handle points. Every device has its primary context and no other.
struct ihipCtx_t {
  int device;
  std::atomic<unsigned> flags{hipDeviceScheduleAuto};
  std::atomic<int> retained{0};
  std::atomic<hipFuncCache_t> cache{hipFuncCachePreferNone};
  std::atomic<hipSharedMemConfig> banks{hipSharedMemBankSizeDefault};
  std::atomic<size_t> stack_bytes{32 * 1024};
  std::atomic<size_t> print_bytes{1024 * 1024};
  std::atomic<size_t> heap_bytes{8 * 1024 * 1024};
  std::array<std::atomic<bool>, cpu::kMaxDevices> peers{};
};

namespace cpu {

// The limits that launches are checked against, and that the properties report.
constexpr uint32_t kWarpSize = 32;
constexpr uint32_t kMaxThreadsPerBlock = 1024;
constexpr uint32_t kMaxThreadsPerMultiprocessor = 2048;
constexpr uint32_t kMaxBlocksPerMultiprocessor = 32;
constexpr uint32_t kMaxGridX = 0x7FFFFFFF;
constexpr uint32_t kMaxGridYZ = 65535;
constexpr uint32_t kSharedMemory = 64 * 1024;

bool is_device(int device);
// Returns the calling thread's device, which is 0 until it calls hipSetDevice.
int current_device();
void set_current_device(int device);
hipCtx_t primary_context(int device);
bool is_context(hipCtx_t context);
// Returns whether hipSetDeviceFlags takes this value: the schedule is one of four values, the other flags are bits.
bool are_device_flags(unsigned value);

}  // namespace cpu
