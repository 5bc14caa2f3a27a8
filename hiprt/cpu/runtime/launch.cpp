#include "runtime/launch.h"

#include <algorithm>
#include <cstring>

#include "check/peek.h"
#include "check/poison.h"
#include "engine/dispatch.h"
#include "quirks/quirks.h"
#include "runtime/device.h"
#include "runtime/function.h"
#include "runtime/memory.h"
#include "runtime/properties.h"

namespace cpu {
namespace {

constexpr size_t kArgumentAlignment = 64;  // no parameter type needs more
constexpr uint64_t kMaxThreads = UINT32_MAX;  // threads of a grid in each dimension

// Reads the buffer form of kernel arguments: a list of (tag, value) that an end tag closes.
hipError_t parse_extra(void **extra, const void **buffer, size_t *size) {
  *buffer = nullptr;
  const size_t *length = nullptr;
  for (; *extra != HIP_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == HIP_LAUNCH_PARAM_BUFFER_POINTER) {
      *buffer = extra[1];
    } else if (*extra == HIP_LAUNCH_PARAM_BUFFER_SIZE) {
      length = static_cast<const size_t *>(extra[1]);
    } else {
      return hipErrorInvalidValue;
    }
  }
  if (!*buffer || !length) return hipErrorInvalidValue;
  *size = *length;
  return hipSuccess;
}

// Returns whether all cells of an array of arguments, and what they point to, can be read. CLR reads them unchecked.
bool are_readable(const Kernel &kernel, void **params) {
  std::vector<std::byte> bytes(kernel.kernarg_size);
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    void *cell = nullptr;
    if (!peek(&cell, params + i, sizeof cell) || !peek(bytes.data(), cell, kernel.params[i].size)) return false;
  }
  return true;
}

}  // namespace

uint32_t threads_of(const dim3 &block) { return block.x * block.y * block.z; }

uint32_t resident_blocks(const Kernel &kernel, uint32_t threads, size_t dynamic_shared) {
  if (threads == 0 || threads > kernel.max_threads) return 0;
  const size_t shared = kernel.static_shared + dynamic_shared;
  if (shared > kSharedMemory) return 0;
  const uint32_t warps = (threads + kWarpSize - 1) / kWarpSize;
  const size_t by_threads = kMaxThreadsPerMultiprocessor / (warps * kWarpSize);
  const size_t by_shared = shared ? kSharedMemory / shared : kMaxBlocksPerMultiprocessor;
  return static_cast<uint32_t>(std::min<size_t>({by_threads, by_shared, kMaxBlocksPerMultiprocessor}));
}

KernelWork::KernelWork(Function f, Geometry g)
    : Work(hipGraphNodeTypeKernel),
      function(std::move(f)),
      geometry(g),
      storage_(function.kernel->kernarg_size + kArgumentAlignment) {}

std::shared_ptr<Work> KernelWork::clone() const {
  auto copy = std::make_shared<KernelWork>(function, geometry);
  std::memcpy(copy->arguments(), arguments(), function.kernel->kernarg_size);
  copy->caller_ = caller_;
  copy->packed = packed;
  copy->is_cooperative = is_cooperative;
  return copy;
}

std::byte *KernelWork::arguments() const {
  const auto start = reinterpret_cast<uintptr_t>(storage_.data());
  const size_t skip = -start % kArgumentAlignment;
  return const_cast<std::byte *>(storage_.data()) + skip;
}

hipError_t KernelWork::take_arguments(void **params, void **extra) {
  const Kernel &kernel = *function.kernel;
  if ((params && extra) || (!params && !extra && !kernel.params.empty())) return hipErrorInvalidValue;
  if (params && quirk(Quirk::ArgGuard) && !are_readable(kernel, params)) return hipErrorInvalidValue;
  if (params) {
    for (size_t i = 0; i < kernel.params.size(); ++i) {
      if (!params[i]) return hipErrorInvalidValue;
      std::memcpy(argument(i), params[i], kernel.params[i].size);
    }
  } else if (extra) {
    const void *buffer = nullptr;
    size_t size = 0;
    if (const hipError_t error = parse_extra(extra, &buffer, &size)) return error;
    const size_t needed = kernel.params.empty() ? 0 : kernel.params.back().offset + kernel.params.back().size;
    if (size < needed) return hipErrorInvalidValue;
    packed = std::min<size_t>(size, kernel.kernarg_size);
    std::memcpy(arguments(), buffer, packed);
  }
  return hipSuccess;
}

bool KernelWork::fits_at_once() const {
  const auto cores = static_cast<uint64_t>(properties(function.device).multiProcessorCount);
  const dim3 &grid = geometry.grid;
  const uint32_t each = resident_blocks(*function.kernel, threads_of(geometry.block), geometry.shared);
  return uint64_t{grid.x} * grid.y * grid.z <= cores * each;
}

// Returns whether the application's cells still hold the values that the node was made with.
bool KernelWork::is_as_given() const {
  std::vector<std::byte> bytes(function.kernel->kernarg_size);
  for (size_t i = 0; i < function.kernel->params.size(); ++i) {
    const size_t size = function.kernel->params[i].size;
    void *cell = nullptr;
    if (!peek(&cell, caller_ + i, sizeof cell) || !peek(bytes.data(), cell, size)) return false;
    if (std::memcmp(bytes.data(), argument(i), size) != 0) return false;
  }
  return true;
}

hipError_t KernelWork::run() {
  // Values other than those that were checked may be anything, so that the result is undefined.
  if (caller_ && !is_as_given()) {
    poison();
    return hipSuccess;
  }
  // The quirk lets a geometry pass that nobody checked. Such a launch does nothing, and no error tells so.
  if (quirk(Quirk::SetparamsValidateOldFunc) && check_geometry(*function.kernel, geometry)) return hipSuccess;
  return run_kernel(*function.kernel, geometry.grid, geometry.block, geometry.shared, arguments(), is_cooperative);
}

// Nobody knows which arguments are pointers. Those of a pointer's size that point into known memory count as such.
bool KernelWork::poison() const {
  constexpr size_t kReach = 256;  // bytes that are poisoned behind a pointer
  const auto &params = function.kernel->params;
  for (size_t i = 0; i < params.size(); ++i) {
    if (params[i].size != sizeof(void *)) continue;
    std::byte *address = nullptr;
    std::memcpy(&address, argument(i), sizeof address);
    const auto found = find_allocation(address);
    if (!found) continue;
    const size_t left = found->size - static_cast<size_t>(address - static_cast<std::byte *>(found->base));
    cpu::poison(address, std::min(left, kReach));
  }
  return true;
}

hipError_t check_geometry(const Kernel &kernel, const Geometry &geometry) {
  const dim3 &grid = geometry.grid;
  const dim3 &block = geometry.block;
  // CLR's hip_module.cpp:249-281, :503 @f9f995c6d; HIP 7.0 changed the code.
  const hipError_t wrong = quirk(Quirk::CodesLt7) ? hipErrorInvalidValue : hipErrorInvalidConfiguration;
  if (!grid.x || !grid.y || !grid.z) return hipErrorInvalidValue;
  if (!block.x || !block.y || !block.z) return wrong;
  // Each dimension is checked first, because their product could wrap around.
  if (std::max({block.x, block.y, block.z}) > kMaxThreadsPerBlock) return wrong;
  if (threads_of(block) > kMaxThreadsPerBlock) return wrong;
  if (grid.x > kMaxGridX || std::max(grid.y, grid.z) > kMaxGridYZ) return wrong;
  if (uint64_t{grid.x} * block.x > kMaxThreads || uint64_t{grid.y} * block.y > kMaxThreads ||
      uint64_t{grid.z} * block.z > kMaxThreads) {
    return hipErrorInvalidConfiguration;
  }
  if (uint64_t{kernel.static_shared} + geometry.shared > kSharedMemory) return hipErrorInvalidValue;
  // The kernel was compiled to what __launch_bounds__ promised.
  return threads_of(block) > kernel.max_threads ? hipErrorLaunchFailure : hipSuccess;
}

hipError_t make_launch(const void *func, const Geometry &geometry, void **params, void **extra,
                       std::shared_ptr<KernelWork> *out, const Kernel *limits) {
  Function function;
  if (!find_function(func, &function)) return hipErrorInvalidDeviceFunction;
  if (const hipError_t error = check_geometry(limits ? *limits : *function.kernel, geometry)) return error;
  auto work = std::make_shared<KernelWork>(std::move(function), geometry);
  if (const hipError_t error = work->take_arguments(params, extra)) return error;
  *out = std::move(work);
  return hipSuccess;
}

}  // namespace cpu
