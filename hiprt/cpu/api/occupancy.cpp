// HIP's functions of occupancy: how many blocks of a kernel a multiprocessor would hold.
#include <algorithm>

#include "runtime/device.h"
#include "runtime/function.h"
#include "runtime/launch.h"
#include "runtime/properties.h"
#include "runtime/status.h"

namespace cpu {
namespace {

hipError_t occupancy(int *blocks, const void *func, int block_size, size_t dynamic_shared) {
  Function function;
  if (!blocks || block_size <= 0) return hipErrorInvalidValue;
  if (!find_function(func, &function)) return hipErrorInvalidDeviceFunction;
  *blocks = static_cast<int>(resident_blocks(*function.kernel, static_cast<uint32_t>(block_size), dynamic_shared));
  return hipSuccess;
}

// Finds the largest block that keeps the most threads resident, and the grid that fills the device with it.
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
}  // namespace cpu

using namespace cpu;

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
