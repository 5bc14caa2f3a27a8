// The shadow of memory: for each byte what is known of it, for each word its last accesses.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "check/known_memory.h"

namespace cpu {

// Who accessed a word, when and where. Its block is a number that no other block of any launch has; 0 is nobody.
struct Stamp {
  uint64_t pc : 48;
  uint64_t bytes : 4;  // of the word
  uint64_t is_atomic : 1;
  uint64_t : 11;
  uint32_t block;
  uint32_t thread : 10;
  uint32_t time : 22;  // the thread's clock
};
static_assert(sizeof(Stamp) == 16);

struct Word {
  Stamp write[2];  // the later one first; the earlier one is of other bytes
  Stamp atomic;    // the last atomic write, which other atomic operations need not be ordered with
  Stamp read[2];
};

struct Page {
  static constexpr size_t kSize = 4096;
  ByteState state[kSize];
  Word whole{};  // what has touched all words alike, while there are no words
  std::unique_ptr<Word[]> words;
  Word *word(size_t offset) {
    if (!words) {
      words.reset(new Word[kSize / 4]);
      std::fill(words.get(), words.get() + kSize / 4, whole);
    }
    return &words[offset / 4];
  }
};

// Held for the whole of a kernel, a copy or a fill, and while the shadow changes.
std::recursive_mutex &check_lock();

// Returns the page of an address. The lock is held.
Page *shadow_page(uintptr_t address);

// These note memory that kernels may touch from now on, or no more. They do nothing unless something is checked.
void memory_taken(uintptr_t base, size_t size, bool initialised);
void memory_given_back(uintptr_t base);
void module_memory(uintptr_t base, size_t size);
void module_memory_gone(uintptr_t base, size_t size);

}  // namespace cpu
