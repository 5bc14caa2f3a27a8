// The memory that kernels may touch, by address: what is allocated, what was freed lately, and the modules' own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace cpu {

// What is known of a byte.
enum class ByteState : uint8_t { Unknown, Uninitialised, Initialised, Freed };

// Note a range that kernels may touch from now on, or no more; initialised memory is such that the host may have written.
void add_range(uintptr_t base, size_t size, bool initialised);
// Returns the range's bytes, 0 if there is none.
size_t remove_range(uintptr_t base);
// The same for a loaded module, in which other ranges may lie.
void add_module_range(uintptr_t base, size_t size);
void remove_module_range(uintptr_t base);

struct MemoryAt {
  bool found = false, freed = false;
  uintptr_t base = 0;
  size_t size = 0;
  std::string taken, given_back;  // stacks of the host
};
// Returns what lies at an address, or nearest below it within a few pages.
MemoryAt memory_at(uintptr_t address);

// Writes the states of a page's bytes as the ranges say.
void fill_states(uintptr_t page, size_t size, ByteState *out);

}  // namespace cpu
