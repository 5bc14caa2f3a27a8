#include "runtime/launch.h"

#include <algorithm>
#include <cstring>

#include "check/poison.h"
#include "engine/dispatch.h"
#include "graph/capture.h"
#include "quirks/quirks.h"
#include "runtime/device.h"
#include "runtime/event.h"
#include "runtime/status.h"
#include "runtime/stream.h"

namespace cpu {
namespace {

constexpr size_t kArgumentAlignment = 64;  // no parameter type wants more
constexpr uint64_t kMaxThreads = UINT32_MAX;  // of a grid, in each dimension

// The buffer form of kernel arguments: a list of (tag, value) that an end tag closes.
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

uint32_t threads_of(const dim3 &block) { return block.x * block.y * block.z; }

// Blocks of this shape that one multiprocessor would hold at a time.
uint32_t resident_blocks(const Kernel &kernel, uint32_t threads, size_t dynamic_shared) {
  if (threads == 0 || threads > kernel.max_threads) return 0;
  const size_t shared = kernel.static_shared + dynamic_shared;
  if (shared > kSharedMemory) return 0;
  const uint32_t warps = (threads + kWarpSize - 1) / kWarpSize;
  const size_t by_threads = kMaxThreadsPerMultiprocessor / (warps * kWarpSize);
  const size_t by_shared = shared ? kSharedMemory / shared : kMaxBlocksPerMultiprocessor;
  return static_cast<uint32_t>(std::min<size_t>({by_threads, by_shared, kMaxBlocksPerMultiprocessor}));
}

// A cell that cannot be read, or an array that is too short: what CLR reads out of bounds (section 1.4).
bool are_readable(const Kernel &kernel, void **params) {
  std::vector<std::byte> bytes(kernel.kernarg_size);
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    void *cell = nullptr;
    if (!peek(&cell, params + i, sizeof cell) || !peek(bytes.data(), cell, kernel.params[i].size)) return false;
  }
  return true;
}

hipError_t launch(const void *func, const Geometry &geometry, hipStream_t stream, void **params, void **extra) {
  // Some eager paths let a grid of zero pass that AddKernelNode refuses: section 1.5.
  const bool is_empty = !geometry.grid.x || !geometry.grid.y || !geometry.grid.z;
  if (is_empty && quirk(Quirk::ZeroDimReject)) return hipSuccess;
  std::shared_ptr<KernelWork> work;
  const hipError_t error = make_launch(func, geometry, params, extra, &work);
  return error ? error : submit(stream, std::move(work));
}

// All blocks of a cooperative launch have to be resident at once.
hipError_t launch_cooperative(const void *func, const Geometry &geometry, hipStream_t stream, void **params) {
  std::shared_ptr<KernelWork> work;
  if (const hipError_t error = make_launch(func, geometry, params, nullptr, &work)) return error;
  const auto cores = static_cast<uint64_t>(properties(work->function.device).multiProcessorCount);
  const uint64_t room = cores * resident_blocks(*work->function.kernel, threads_of(geometry.block), geometry.shared);
  const dim3 &grid = geometry.grid;
  if (uint64_t{grid.x} * grid.y * grid.z > room) return hipErrorCooperativeLaunchTooLarge;
  return submit(stream, std::move(work));
}

// The attributes of an extended launch: those that can change what a kernel computes are obeyed or refused.
hipError_t read_attributes(const hipLaunchAttribute *attributes, unsigned count, bool *cooperative) {
  *cooperative = false;
  if (count && !attributes) return hipErrorInvalidValue;
  for (unsigned i = 0; i < count; ++i) {
    const hipLaunchAttributeValue &value = attributes[i].value;
    switch (attributes[i].id) {
      case hipLaunchAttributeCooperative:
        *cooperative = value.cooperative != 0;
        break;
      case hipLaunchAttributeClusterDimension:
        if (std::max({value.clusterDim.x, value.clusterDim.y, value.clusterDim.z}) > 1) return hipErrorInvalidClusterSize;
        break;
      case hipLaunchAttributeIgnore:
      case hipLaunchAttributePriority:
      case hipLaunchAttributeAccessPolicyWindow:
      case hipLaunchAttributeSynchronizationPolicy:
      case hipLaunchAttributeClusterSchedulingPolicyPreference:
      case hipLaunchAttributeMemSyncDomainMap:
      case hipLaunchAttributeMemSyncDomain:
      case hipLaunchAttributeExtDynDataPrefetch:
        break;
      default:
        return hipErrorInvalidValue;
    }
  }
  return hipSuccess;
}

hipError_t launch_extended(const void *func, const Geometry &geometry, hipStream_t stream, void **params, void **extra,
                           const hipLaunchAttribute *attributes, unsigned count) {
  bool cooperative = false;
  if (const hipError_t error = read_attributes(attributes, count, &cooperative)) return error;
  if (cooperative && extra) return hipErrorInvalidValue;
  return cooperative ? launch_cooperative(func, geometry, stream, params)
                     : launch(func, geometry, stream, params, extra);
}

// A launch between two events, which time it.
hipError_t launch_timed(const void *func, const Geometry &geometry, hipStream_t stream, void **params, void **extra,
                        hipEvent_t start, hipEvent_t stop) {
  std::shared_ptr<KernelWork> work;
  if (const hipError_t error = make_launch(func, geometry, params, extra, &work)) return error;
  if (start) {
    if (const hipError_t error = hipEventRecord(start, stream)) return error;
  }
  if (const hipError_t error = submit(stream, std::move(work))) return error;
  return stop ? hipEventRecord(stop, stream) : hipSuccess;
}

hipError_t occupancy(int *blocks, const void *func, int block_size, size_t dynamic_shared) {
  Function function;
  if (!blocks || block_size <= 0) return hipErrorInvalidValue;
  if (!find_function(func, &function)) return hipErrorInvalidDeviceFunction;
  *blocks = static_cast<int>(resident_blocks(*function.kernel, static_cast<uint32_t>(block_size), dynamic_shared));
  return hipSuccess;
}

// The largest block that keeps the most threads resident, and the grid that fills the device with it.
hipError_t best_block(int *grid, int *block, const void *func, size_t dynamic_shared, int limit) {
  Function function;
  if (!grid || !block || limit < 0) return hipErrorInvalidValue;
  if (!find_function(func, &function)) return hipErrorInvalidDeviceFunction;
  const uint32_t most = function.kernel->max_threads;
  const uint32_t top = limit ? std::min(static_cast<uint32_t>(limit), most) : most;
  uint32_t best = 0;
  uint32_t best_blocks = 0;
  for (uint32_t size = top; size > 0; size = (size - 1) / kWarpSize * kWarpSize) {
    const uint32_t blocks = resident_blocks(*function.kernel, size, dynamic_shared);
    if (size * blocks > best * best_blocks) {
      best = size;
      best_blocks = blocks;
    }
  }
  if (!best) return hipErrorInvalidValue;
  *block = static_cast<int>(best);
  *grid = static_cast<int>(best_blocks) * properties(function.device).multiProcessorCount;
  return hipSuccess;
}

}  // namespace

KernelWork::KernelWork(Function f, Geometry g)
    : Work(hipGraphNodeTypeKernel),
      function(std::move(f)),
      geometry(g),
      storage_(function.kernel->kernarg_size + kArgumentAlignment) {}

std::shared_ptr<Work> KernelWork::clone() const {
  auto copy = std::make_shared<KernelWork>(function, geometry);
  std::memcpy(copy->arguments(), arguments(), function.kernel->kernarg_size);
  copy->caller_ = caller_;
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
    std::memcpy(arguments(), buffer, std::min<size_t>(size, kernel.kernarg_size));
  }
  return hipSuccess;
}

// Whether the application's cells still hold what the node was made with.
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
  // Other values than those checked may be anything: the result is undefined.
  if (caller_ && !is_as_given()) {
    poison(*this);
    return hipSuccess;
  }
  // A launch that nobody checked fails without a word.
  if (quirk(Quirk::SetparamsValidateOldFunc) && check_geometry(*function.kernel, geometry)) return hipSuccess;
  return run_kernel(*function.kernel, geometry.grid, geometry.block, geometry.shared, arguments());
}

hipError_t check_geometry(const Kernel &kernel, const Geometry &geometry) {
  const dim3 &grid = geometry.grid;
  const dim3 &block = geometry.block;
  if (!grid.x || !grid.y || !grid.z) return hipErrorInvalidValue;
  if (!block.x || !block.y || !block.z) return hipErrorInvalidConfiguration;
  // Each dimension first: their product could wrap around.
  if (std::max({block.x, block.y, block.z}) > kMaxThreadsPerBlock) return hipErrorInvalidConfiguration;
  if (threads_of(block) > kMaxThreadsPerBlock) return hipErrorInvalidConfiguration;
  if (grid.x > kMaxGridX || std::max(grid.y, grid.z) > kMaxGridYZ) return hipErrorInvalidConfiguration;
  if (uint64_t{grid.x} * block.x > kMaxThreads || uint64_t{grid.y} * block.y > kMaxThreads ||
      uint64_t{grid.z} * block.z > kMaxThreads) {
    return hipErrorInvalidConfiguration;
  }
  if (uint64_t{kernel.static_shared} + geometry.shared > kSharedMemory) return hipErrorInvalidValue;
  // __launch_bounds__ is a promise the kernel was compiled with.
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

using namespace cpu;

hipError_t hipModuleLaunchKernel(hipFunction_t f, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                                 unsigned int block_x, unsigned int block_y, unsigned int block_z,
                                 unsigned int shared, hipStream_t stream, void **params, void **extra) {
  return api([&] {
    return launch(f, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared}, stream, params, extra);
  });
}

hipError_t hipModuleLaunchCooperativeKernel(hipFunction_t f, unsigned int grid_x, unsigned int grid_y,
                                            unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                            unsigned int block_z, unsigned int shared, hipStream_t stream,
                                            void **params) {
  return api([&] {
    return launch_cooperative(f, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared}, stream, params);
  });
}

hipError_t hipExtModuleLaunchKernel(hipFunction_t f, uint32_t threads_x, uint32_t threads_y, uint32_t threads_z,
                                    uint32_t block_x, uint32_t block_y, uint32_t block_z, size_t shared,
                                    hipStream_t stream, void **params, void **extra, hipEvent_t start,
                                    hipEvent_t stop, uint32_t) {
  return api([&] {
    if (!block_x || !block_y || !block_z || shared > kSharedMemory) return hipErrorInvalidConfiguration;
    // Sizes are in threads. A block cut short at the edge is an AMD extension that the engine does not have.
    if (threads_x % block_x || threads_y % block_y || threads_z % block_z) return hipErrorInvalidConfiguration;
    const Geometry geometry{{threads_x / block_x, threads_y / block_y, threads_z / block_z},
                            {block_x, block_y, block_z},
                            static_cast<uint32_t>(shared)};
    return launch_timed(f, geometry, stream, params, extra, start, stop);
  });
}

hipError_t hipLaunchKernel(const void *func, dim3 grid, dim3 block, void **params, size_t shared, hipStream_t stream) {
  return api([&] {
    if (shared > kSharedMemory) return hipErrorInvalidValue;
    return launch(func, {grid, block, static_cast<uint32_t>(shared)}, stream, params, nullptr);
  });
}

hipError_t hipExtLaunchKernel(const void *func, dim3 grid, dim3 block, void **params, size_t shared,
                              hipStream_t stream, hipEvent_t start, hipEvent_t stop, int) {
  return api([&] {
    if (shared > kSharedMemory) return hipErrorInvalidValue;
    return launch_timed(func, {grid, block, static_cast<uint32_t>(shared)}, stream, params, nullptr, start, stop);
  });
}

hipError_t hipLaunchCooperativeKernel(const void *func, dim3 grid, dim3 block, void **params, unsigned int shared,
                                      hipStream_t stream) {
  return api([&] { return launch_cooperative(func, {grid, block, shared}, stream, params); });
}

hipError_t hipLaunchKernelExC(const hipLaunchConfig_t *config, const void *func, void **params) {
  return api([&] {
    if (!config || config->dynamicSmemBytes > kSharedMemory) return hipErrorInvalidValue;
    const Geometry geometry{config->gridDim, config->blockDim, static_cast<uint32_t>(config->dynamicSmemBytes)};
    return launch_extended(func, geometry, config->stream, params, nullptr, config->attrs, config->numAttrs);
  });
}

hipError_t hipDrvLaunchKernelEx(const HIP_LAUNCH_CONFIG *config, hipFunction_t f, void **params, void **extra) {
  return api([&] {
    if (!config) return hipErrorInvalidValue;
    const Geometry geometry{{config->gridDimX, config->gridDimY, config->gridDimZ},
                            {config->blockDimX, config->blockDimY, config->blockDimZ},
                            config->sharedMemBytes};
    return launch_extended(f, geometry, config->hStream, params, extra, config->attrs, config->numAttrs);
  });
}

hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, hipFunction_t f, int block_size,
                                                              size_t shared) {
  return api([&] { return occupancy(blocks, f, block_size, shared); });
}

hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, hipFunction_t f, int block_size,
                                                                       size_t shared, unsigned int flags) {
  return api([&] { return flags ? hipErrorInvalidValue : occupancy(blocks, f, block_size, shared); });
}

hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *f, int block_size, size_t shared) {
  return api([&] { return occupancy(blocks, f, block_size, shared); });
}

hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *f, int block_size,
                                                                 size_t shared, unsigned int flags) {
  return api([&] { return flags ? hipErrorInvalidValue : occupancy(blocks, f, block_size, shared); });
}

hipError_t hipModuleOccupancyMaxPotentialBlockSize(int *grid, int *block, hipFunction_t f, size_t shared, int limit) {
  return api([&] { return best_block(grid, block, f, shared, limit); });
}

hipError_t hipModuleOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, hipFunction_t f, size_t shared,
                                                            int limit, unsigned int flags) {
  return api([&] { return flags ? hipErrorInvalidValue : best_block(grid, block, f, shared, limit); });
}

hipError_t hipOccupancyMaxPotentialBlockSize(int *grid, int *block, const void *f, size_t shared, int limit) {
  return api([&] { return best_block(grid, block, f, shared, limit); });
}

hipError_t hipOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, const void *f, int blocks, int block_size) {
  return api([&] {
    Function function;
    if (!bytes || blocks <= 0 || block_size <= 0) return hipErrorInvalidValue;
    if (!find_function(f, &function)) return hipErrorInvalidDeviceFunction;
    const size_t each = kSharedMemory / static_cast<size_t>(blocks);
    *bytes = each - std::min<size_t>(each, function.kernel->static_shared);
    return hipSuccess;
  });
}
