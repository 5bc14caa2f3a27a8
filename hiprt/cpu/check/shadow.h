// The shadow of memory: for each word its last accesses, and which of its bytes may be touched and were written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "check/known_memory.h"
#include "include/cpu_abi.h"

namespace cpu {

using Cell = __hiprt_cell;

// The parts of a word in the shadow, as cpu_abi.h lays them out.
constexpr unsigned kPlaceBits = 19;
constexpr uint64_t kAtomicBit = uint64_t{1} << 51, kMoreBit = __hiprt_check_more, kReadersBit = __hiprt_check_readers;
constexpr unsigned kBytesShift = 52, kWrittenShift = 56, kUsableShift = 60;
constexpr uint64_t kStates = uint64_t{0xFF} << 56;

inline uint32_t who(uint64_t access) { return static_cast<uint32_t>(access); }
inline unsigned bytes_of(uint64_t access) { return access >> kBytesShift & 15; }
inline unsigned written(const Cell &cell) { return cell.write >> kWrittenShift & 15; }
inline unsigned usable(const Cell &cell) { return static_cast<unsigned>(cell.write >> kUsableShift); }

struct Page {
  static constexpr size_t kSize = __hiprt_check_page_size;
  static constexpr size_t kWords = __hiprt_check_words;
  Cell whole[2] = {};  // the first and second cell of all words, which are alike while there are no cells
  std::unique_ptr<Cell[]> cells;
};

// Held for the whole of a kernel, a copy or a fill, and while the shadow changes.
std::recursive_mutex &check_lock();

// What running kernels look at. It, and what follows, is used with the lock held.
__hiprt_check &check_context();
// Returns the page of an address.
Page *shadow_page(uintptr_t address);
// Returns the first cell of the word at an address; the second lies Page::kWords behind it.
Cell *shadow_cell(uintptr_t address);
// Forgets all accesses.
void forget_accesses();

// These note memory that kernels may touch from now on, or no more. They do nothing unless something is checked. Works of
// streams call them when they run, with the stack of the call that queued them.
void memory_taken(uintptr_t base, size_t size, bool initialised, const HostStack &stack = host_stack());
void memory_given_back(uintptr_t base, const HostStack &stack = host_stack());
// The same for memory that is given out in parts, which are taken like other memory. When it goes, its parts go.
void memory_divided(uintptr_t base);
void part_given_back(uintptr_t base, const HostStack &stack);
void module_memory(uintptr_t base, size_t size);
void module_memory_gone(uintptr_t base, size_t size);

}  // namespace cpu
