// Virtual memory: ranges of addresses that are reserved, memory that has none, and the mappings between them.
#pragma once

#include <cstddef>
#include <map>
#include <memory>

#include "hip/hip_runtime_api.h"
#include "runtime/shared_memory.h"

namespace cpu {

// Memory without an address. It counts against its device's size until the last mapping and the last handle are gone.
struct PhysicalMemory {
  PhysicalMemory(std::shared_ptr<MemoryFile> f, const hipMemAllocationProp &p, bool c) : file(std::move(f)), properties(p), counts(c) {}
  ~PhysicalMemory();
  PhysicalMemory(const PhysicalMemory &) = delete;
  PhysicalMemory &operator=(const PhysicalMemory &) = delete;

  const std::shared_ptr<MemoryFile> file;
  const hipMemAllocationProp properties;
  const bool counts;  // what was imported counts where it was made
};

// These do what HIP's functions of their names do, after the checks that need no table.
hipError_t reserve_addresses(void **out, size_t size, size_t alignment, void *wanted);
hipError_t free_addresses(void *base, size_t size);
hipError_t add_physical(hipMemGenericAllocationHandle_t *out, std::shared_ptr<PhysicalMemory> memory);
std::shared_ptr<PhysicalMemory> find_physical(hipMemGenericAllocationHandle_t handle);
hipError_t release_physical(hipMemGenericAllocationHandle_t handle);
hipError_t retain_physical(hipMemGenericAllocationHandle_t *out, const void *address);
hipError_t map_physical(void *base, size_t size, hipMemGenericAllocationHandle_t handle);
hipError_t unmap_physical(void *base, size_t size);
// Mapped memory is not to be touched by any device until this allows it.
hipError_t set_access(void *base, size_t size, int device, hipMemAccessFlags flags);
hipError_t get_access(const void *address, int device, hipMemAccessFlags *out);

}  // namespace cpu
