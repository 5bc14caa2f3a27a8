#include "runtime/device.h"

#include "flags.h"

namespace cpu {
namespace {

thread_local int current = 0;

std::array<ihipCtx_t, kMaxDevices> &contexts() {
  using All = std::array<ihipCtx_t, kMaxDevices>;
  static All &all = *[] {
    auto *made = new All;
    for (int i = 0; i < kMaxDevices; ++i) (*made)[i].device = i;
    return made;
  }();
  return all;
}

}  // namespace

bool is_device(int device) { return device >= 0 && device < flags().devices; }

int current_device() { return current; }

void set_current_device(int device) { current = device; }

hipCtx_t primary_context(int device) { return &contexts()[device]; }

bool is_context(hipCtx_t context) {
  for (int i = 0; i < flags().devices; ++i) {
    if (context == &contexts()[i]) return true;
  }
  return false;
}

bool are_device_flags(unsigned value) {
  const unsigned schedule = value & hipDeviceScheduleMask;
  const bool one = schedule == hipDeviceScheduleAuto || schedule == hipDeviceScheduleSpin ||
                   schedule == hipDeviceScheduleYield || schedule == hipDeviceScheduleBlockingSync;
  return one && !(value & ~(hipDeviceScheduleMask | hipDeviceMapHost | hipDeviceLmemResizeToMax));
}

}  // namespace cpu
