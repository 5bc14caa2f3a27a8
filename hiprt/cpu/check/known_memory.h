// The memory that kernels may touch, by address: what is allocated, what was freed lately, and the modules' own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace cpu {

// What is known of a byte.
enum class ByteState : uint8_t { Unknown, Uninitialised, Initialised, Freed };

// Where the host was when it took memory or gave it back.
struct HostStack {
  std::array<void *, 24> frames;
  int count = 0;
  std::string text;  // where it was in a program that is no machine code; said instead of the frames
};
// Returns the calling thread's, which is empty unless something is checked.
HostStack host_stack();

// Note a range that kernels may touch from now on, or no more; initialised memory is such that the host may have written.
void add_range(uintptr_t base, size_t size, bool initialised, const HostStack &stack);
// Returns the range's bytes, 0 if there is none. The parts of a divided range go with it.
size_t remove_range(uintptr_t base, const HostStack &stack);
// Divides a range: from now on kernels may touch only those ranges that are added within it. Returns its bytes, 0 if there is
// none.
size_t divide_range(uintptr_t base);
// Removes a range that was added within a divided one.
size_t remove_part(uintptr_t base, const HostStack &stack);
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
