#include "check/transfers.h"

#include <algorithm>
#include <utility>

#include "check/check_state.h"
#include "check/checks.h"
#include "check/races.h"
#include "check/shadow.h"

namespace cpu {
namespace {

// Calls visit(address, size) for the part of a range in each page.
template <class Visit>
void for_pages(uintptr_t address, size_t size, Visit visit) {
  for (const uintptr_t end = address + size; address < end;) {
    const uintptr_t next = std::min(end, (address / Page::kSize + 1) * Page::kSize);
    visit(address, next - address);
    address = next;
  }
}

// Notes a transfer's access. Of memory that is not the device's nothing is known.
void transfer(uintptr_t from, size_t length, bool writes) {
  if (!checks(CheckKind::Race)) return;
  const uint32_t self = check_context().self;
  for_pages(from, length, [&](uintptr_t address, size_t size) {
    Page *page = shadow_page(address);
    if (page->is_alike() && !usable(page->whole[0])) return;
    const uint64_t access = access_of(self, 15, false, 0);
    if (size == Page::kSize && page->is_alike()) return check_race(&page->whole[0], &page->whole[1], access, writes, address);
    if (size == Page::kSize && page->rows && plain_words(*page, 0, Page::kWords, false) == Page::kWords) {
      return note_words(page, 0, Page::kWords, access, 0, writes);
    }
    for (uintptr_t word = address & ~uintptr_t{3}; word < address + size; word += 4) {
      const size_t begin = std::max(address, word) - word, end = std::min(address + size, word + 4) - word;
      Cell *cell = shadow_cell(word);
      const unsigned bytes = ((1u << end) - 1) & ~((1u << begin) - 1) & usable(*cell);
      if (bytes) check_race(cell, cell + Page::kWords, access_of(self, bytes, false, 0), writes, word);
    }
  });
}

// Returns a bit for each of `count` bytes at an address: whether it was written. Memory that is not the device's was.
unsigned written_bytes(uintptr_t address, unsigned count) {
  unsigned out = 0;
  for (unsigned i = 0; i < count; ++i) {
    Page *page = shadow_page(address + i);
    if (page->rows) give_cells(page);
    const Cell &cell = page->cells ? page->cells[(address + i) % Page::kSize / 4] : page->whole[0];
    const unsigned byte = (address + i) % 4;
    out |= unsigned(!(usable(cell) >> byte & 1) || written(cell) >> byte & 1) << i;
  }
  return out;
}

void set_written(uintptr_t word, unsigned bytes, unsigned values) {
  Cell *cell = shadow_cell(word);
  bytes &= usable(*cell);
  cell->write = (cell->write & ~(uint64_t{bytes} << kWrittenShift)) | uint64_t{values & bytes} << kWrittenShift;
}

// Returns whether all of a page was written, or is not the device's.
bool is_written(const Page &page) {
  if (page.is_alike()) return !usable(page.whole[0]) || written(page.whole[0]) == 15;
  return page.rows && std::all_of(page.rows.get(), page.rows.get() + Page::kRows, [](const Row &row) { return written(row.first) == 15; });
}

// Notes that a page without cells was written.
void set_page_written(Page *page) {
  const auto set = [](Cell *cell) { cell->write |= uint64_t{usable(*cell)} << kWrittenShift; };
  set(&page->whole[0]);
  for (size_t i = 0; page->rows && i < Page::kRows; ++i) set(&page->rows[i].first);
}

}  // namespace

void begin_transfer(const char *name) {
  state().kernel = CheckedKernel{};
  LaunchRecord launch{};
  launch.name = name;
  std::fill(launch.grid, launch.grid + 3, 1u);
  std::fill(launch.block, launch.block + 3, 1u);
  add_launch(std::move(launch));
  begin_checked_work();
  begin_block_of(0, 1);
}

void check_copy(uintptr_t to, uintptr_t from, size_t length) {
  transfer(from, length, false);
  transfer(to, length, true);
  for_pages(to, length, [&](uintptr_t target, size_t size) {
    const uintptr_t source = from + (target - to);
    const bool all = is_written(*shadow_page(source)) && is_written(*shadow_page(source + size - 1));
    Page *page = shadow_page(target);
    if (all && size == Page::kSize && !page->cells) return set_page_written(page);
    if (page->is_alike() && !usable(page->whole[0])) return;
    for (uintptr_t word = target & ~uintptr_t{3}; word < target + size; word += 4) {
      const uintptr_t begin = std::max(target, word), end = std::min(target + size, word + 4);
      const unsigned count = static_cast<unsigned>(end - begin), bytes = ((1u << count) - 1) << (begin - word);
      const unsigned values = all ? bytes : written_bytes(from + (begin - to), count) << (begin - word);
      set_written(word, bytes, values);
    }
  });
}

void check_fill(uintptr_t to, size_t length) {
  transfer(to, length, true);
  for_pages(to, length, [&](uintptr_t address, size_t size) {
    Page *page = shadow_page(address);
    if (size == Page::kSize && !page->cells) return set_page_written(page);
    if (page->is_alike() && !usable(page->whole[0])) return;
    for (uintptr_t word = address & ~uintptr_t{3}; word < address + size; word += 4) {
      const uintptr_t begin = std::max(address, word) - word, end = std::min(address + size, word + 4) - word;
      const unsigned bytes = ((1u << end) - 1) & ~((1u << begin) - 1);
      set_written(word, bytes, bytes);
    }
  });
}

}  // namespace cpu
