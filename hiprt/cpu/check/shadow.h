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

// What an access does, as in include/cpu_check.h.
enum AccessKind : unsigned { kReads = 1, kWrites = 2, kAtomic = 4, kAcquires = 8, kReleases = 16 };

inline uint32_t who(uint64_t access) { return static_cast<uint32_t>(access); }
inline unsigned bytes_of(uint64_t access) { return access >> kBytesShift & 15; }
inline unsigned written(const Cell &cell) { return cell.write >> kWrittenShift & 15; }
inline unsigned usable(const Cell &cell) { return static_cast<unsigned>(cell.write >> kUsableShift); }

// The first cells of some words that were accessed by threads that follow each other: of each access the first thread's, and
// how many words each thread accessed; 0: all are the first one's.
struct Row {
  static constexpr size_t kWords = 32;
  Cell first;
  unsigned written_each, read_each;
  Cell cell(size_t word) const {
    return {first.write + (written_each ? word / written_each : 0), first.read + (read_each ? word / read_each : 0)};
  }
};

// It has cells, or rows while they say it all, or neither. While cores execute blocks side by side, a page is the core's that comes
// to it first; each other core gets a page of its own, which knows only the bytes' states as they were before.
struct Page {
  static constexpr size_t kSize = __hiprt_check_page_size;
  static constexpr size_t kWords = __hiprt_check_words;
  static constexpr size_t kRows = kWords / Row::kWords;
  Cell whole[2] = {};  // the first and second cell of all words, while they are alike
  std::unique_ptr<Row[]> rows;
  std::unique_ptr<Cell[]> cells;
  uint64_t shared_kernel = 0;  // whose core `owner` came first
  unsigned owner = 0;
  std::unique_ptr<unsigned char[]> states;  // of the words then; null: all were `state`
  unsigned char state = 0;
  bool is_alike() const { return !cells && !rows; }
};

// Held for the whole of a kernel, a copy or a fill, and while the shadow changes. Cores that execute blocks of a kernel use what
// its thread holds the lock for.
std::recursive_mutex &check_lock();
// Names what is called before the states of words change: accesses that are not noted yet are noted then.
void before_shadow_changes(void (*call)());

// Begins a kernel whose blocks run side by side, and ends it when no core executes any: calls join(address, page, other) for each
// page that a core got beside the one that came first.
void share_shadow();
void unshare_shadow(void (*join)(uintptr_t address, Page *page, Page *other));
// Makes a core begin such a kernel with no page.
void forget_recent_pages();

// What running kernels look at. It, and what follows, is used with the lock held.
__hiprt_check &check_context();
// Returns the page of an address.
Page *shadow_page(uintptr_t address);
// Gives a page cells, unless it has them.
void give_cells(Page *page);
// Gives a page rows, and returns false if they could not say what is known of its words.
bool give_rows(Page *page);
// Gives the page of an address rows instead of cells, if rows can say the same.
void join_cells(uintptr_t address, Page *page);
// Returns the first cell of the word at an address; the second lies Page::kWords behind it.
Cell *shadow_cell(uintptr_t address);
// Returns for how many of a page's words, from number `begin` on, an access needs no other look than this one: nothing is wrong
// with it, and all that was done to them comes before what runs now. With `reads` they must have been written.
size_t plain_words(const Page &page, size_t begin, size_t most, bool reads);
// Notes such accesses: `access` is the first one, and each thread accesses `each` words; 0: all are the first one's.
void note_words(Page *page, size_t begin, size_t count, uint64_t access, unsigned each, bool writes);
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
