// Memory of other processes that this one has mapped, by a handle of its own or as a part of an imported pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "hip/hip_runtime_api.h"
#include "runtime/memory.h"

namespace cpu {

// Names a place in memory that has a file, to this process and to others.
struct MemoryTicket {
  int process;
  int descriptor;
  uint64_t identity;
  size_t size;
  size_t offset;
};

MemoryTicket make_ticket(const MemoryFile &file, const Allocation &allocation, const void *address);
// Maps the memory that a ticket names and returns the place; null if it is not there any more. `pool` is the imported pool
// that the memory belongs to, or null.
void *import_memory(const MemoryTicket &ticket, hipMemPool_t pool);
// Hides the imported memory that starts at an address; null if none does that belongs to a pool, or to none. The mapping
// ends with the result.
std::shared_ptr<const Allocation> take_import(const void *base, bool of_pool);

}  // namespace cpu
