#include "check/streaks.h"

#include <algorithm>

#include "check/cores.h"
#include "check/shadow.h"

namespace cpu {
namespace {

constexpr size_t kMost = 8;          // at a time, since each other access is held against them
constexpr unsigned kLeast = 8;       // threads: fewer are no streak worth its begin
constexpr unsigned kTries = 2;       // streaks that were shorter, until their place gets none any more
constexpr int64_t kAccesses = 1024;  // by so many those outside streaks may exceed those within, until a kernel gets none

// A streak that has begun, and the words that it may touch.
struct Streak {
  __hiprt_streak *entry;
  Page *page;
  uintptr_t begin, end;
  unsigned first, words;  // who began it; the words of an access
  bool writes;
  uint64_t access;  // the first one, as a cell has it
};

// A place in the code that has an entry.
struct Place {
  uintptr_t pc;
  unsigned failures;
};

struct State {
  Streak streaks[kMost];
  size_t count = 0;
  Place places[__hiprt_check_streaks] = {};
  unsigned row = 0;  // the threads of the row that runs
  int64_t credit = 0;
};

State &state() {
  static PerCore<State> &all = *new PerCore<State>;
  return all.own();
}

void end_streak(size_t index) {
  State &all = state();
  Streak &streak = all.streaks[index];
  const unsigned threads = streak.entry->next - streak.first;
  const uintptr_t behind = streak.begin + size_t{threads} * streak.words * 4;
  note_words(streak.page, streak.begin % Page::kSize / 4, size_t{threads} * streak.words, streak.access, streak.words,
             streak.writes);
  if (behind % Page::kSize == 0) join_cells(streak.begin, streak.page);
  if (threads < kLeast) ++all.places[streak.entry - check_context().streaks].failures;
  all.credit += threads;
  streak.entry->place = 0;
  streak = all.streaks[--all.count];
}

}  // namespace

void forget_streaks() {
  State &all = state();
  end_streaks();
  std::fill(std::begin(all.places), std::end(all.places), Place{});
  all.credit = kAccesses;
}

void begin_row(unsigned first, unsigned threads) {
  State &all = state();
  __hiprt_check &now = check_context();
  all.row = threads;
  now.row_end = all.credit > 0 && threads >= kLeast ? now.first + first + threads : 0;
}

void end_row() {
  end_streaks();
  check_context().row_end = 0;
}

void end_streaks() {
  while (state().count) end_streak(0);
}

void end_streaks_at(uintptr_t address, size_t size) {
  State &all = state();
  for (size_t i = all.count; i-- > 0;) {
    if (address < all.streaks[i].end && address + size > all.streaks[i].begin) end_streak(i);
  }
}

bool begin_streak(uintptr_t address, size_t size, unsigned kind, uintptr_t pc) {
  State &all = state();
  __hiprt_check &now = check_context();
  end_streaks_at(address, size);
  if (--all.credit <= 0) {
    end_row();
    return false;
  }
  const unsigned index = pc % __hiprt_check_streaks, left = now.row_end - now.self;
  __hiprt_streak &entry = now.streaks[index];
  Place &place = all.places[index];
  if (entry.place == pc) {
    const auto is_own = [&](const Streak &streak) { return streak.entry == &entry; };
    end_streak(static_cast<size_t>(std::find_if(all.streaks, all.streaks + all.count, is_own) - all.streaks));
  }
  if (place.pc != pc && !entry.place) place = {pc, 0};
  const bool may_begin = place.pc == pc && place.failures < kTries && all.count < kMost && left <= all.row && left >= kLeast;
  if (!may_begin || size < 4 || size > 16 || size & (size - 1) || address % size) return false;
  Page *page = shadow_page(address);
  if (page->is_alike() && !usable(page->whole[0])) return false;
  const uintptr_t page_end = (address / Page::kSize + 1) * Page::kSize;
  uintptr_t end = std::min(address + left * size, page_end);
  for (size_t i = 0; i < all.count; ++i) {
    if (all.streaks[i].begin > address) end = std::min(end, all.streaks[i].begin);
  }
  const size_t begin = address % Page::kSize / 4, most = (end - address) / 4, words = size / 4;
  if (begin % Row::kWords || most < Row::kWords || !give_rows(page)) give_cells(page);
  const auto threads = static_cast<unsigned>(plain_words(*page, begin, most, kind & kReads) / words);
  if (threads < kLeast) {
    if (end < page_end) ++place.failures;
    return false;
  }
  const uint64_t access = now.self | (pc - now.code) / 2 % (1u << kPlaceBits) << 32 | uint64_t{15} << kBytesShift;
  all.streaks[all.count++] = {&entry,   page,                         address,               address + threads * size,
                              now.self, static_cast<unsigned>(words), (kind & kWrites) != 0, access};
  entry = {pc, address - size * now.self, now.self + 1, now.self + threads};
  return true;
}

}  // namespace cpu
