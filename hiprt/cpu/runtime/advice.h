// Advice on memory, kept page by page to be read back. It changes nothing, because all memory is the host's.
#pragma once

#include <cstddef>
#include <functional>
#include <set>

#include "hip/hip_runtime_api.h"

namespace cpu {

struct Advice {
  bool read_mostly = false;
  int preferred = hipInvalidDeviceId;
  std::set<int> accessed_by;
  int prefetched = hipInvalidDeviceId;
  bool coarse = false;
};

// Changes the advice on every page that the range touches, as the kernel driver does.
void change_advice(const void *address, size_t size, const std::function<void(Advice &)> &change);
// Returns what holds for every page that the range touches.
Advice common_advice(const void *address, size_t size);
// Forgets the advice on whole pages, whose addresses other memory may get.
void forget_advice(const void *address, size_t size);

}  // namespace cpu
