#include "check/shadow.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "check/checks.h"
#include "check/cores.h"

namespace cpu {

__thread unsigned this_core = 0;
__thread __hiprt_check *core_context = nullptr;

namespace {

constexpr __hiprt_check_page kNoPage = {~0ul, nullptr};

using Pages = std::unordered_map<uintptr_t, Page>;

struct Shadow {
  Pages pages;  // by number
  PerCore<Pages> others;  // what cores got beside
  std::mutex lock;  // of the pages, while cores share them
  bool is_shared = false;
  uint64_t kernel = 0;
};

Shadow &shadow() {
  static Shadow &all = *new Shadow;
  return all;
}

Pages &pages() { return shadow().pages; }

// Returns the cell of a word of which only the bytes' states are known.
Cell untouched(const ByteState *states) {
  uint64_t bits = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const bool is_usable = states[i] == ByteState::Uninitialised || states[i] == ByteState::Initialised;
    if (is_usable) bits |= uint64_t{1} << (kUsableShift + i);
    if (states[i] == ByteState::Initialised) bits |= uint64_t{1} << (kWrittenShift + i);
  }
  return {bits, 0};
}

bool are_alike(const ByteState *states) {
  return std::all_of(states, states + Page::kSize, [&](ByteState s) { return s == states[0]; });
}

struct Context {
  Context() { std::fill(std::begin(context.recent), std::end(context.recent), kNoPage); }
  __hiprt_check context{};
};

__hiprt_check_page &recent_of(uintptr_t number) { return check_context().recent[number % __hiprt_check_recent]; }

// Forgets the accesses of some words of a page, and reads their states anew.
void read_states(uintptr_t number, Page *page, uintptr_t from, uintptr_t to) {
  ByteState states[Page::kSize];
  fill_states(number * Page::kSize, Page::kSize, states);
  if (from == 0 && to == Page::kSize && are_alike(states)) {
    if (recent_of(number).number == number) recent_of(number) = kNoPage;
    page->cells.reset(), page->rows.reset();
    page->whole[0] = untouched(states), page->whole[1] = {};
    return;
  }
  give_cells(page);
  for (uintptr_t w = from / 4; w <= (to - 1) / 4; ++w) page->cells[w] = untouched(states + w * 4), page->cells[w + Page::kWords] = {};
}

bool is_plain(const Cell &cell, uint64_t needed, uint32_t before) {
  return (cell.write & needed) == needed && !(cell.read & kMoreBit) && who(cell.write) < before && who(cell.read) < before;
}

// Whoever comes later and is ordered with neither conflicts with the write first, so that reads before it are forgotten.
void note_access(Cell *cell, uint64_t access, bool writes) {
  if (writes) *cell = {kStates | access, 0};
  else cell->read = access;
}

// Returns how many words each thread accessed, 0 if all are one's, in a row of cells if that says all of them; else nothing.
std::optional<unsigned> words_each(const Cell *cells, unsigned long long Cell::*part) {
  const uint64_t first = cells[0].*part;
  unsigned shift = 0;
  while (shift < 3 && cells[1u << shift].*part == first) ++shift;
  const bool is_one = shift == 3;
  for (unsigned word = 0; word < Row::kWords; ++word) {
    if (cells[word].*part != first + (is_one ? 0 : word >> shift)) return std::nullopt;
  }
  return is_one ? 0 : 1u << shift;
}

unsigned char state_of(const Cell &cell) { return static_cast<unsigned char>(cell.write >> kWrittenShift); }

// Gives a page to this core, and keeps the states of its words for others.
void take_page(Page *page) {
  page->shared_kernel = shadow().kernel;
  page->owner = this_core;
  page->states.reset();
  const Cell *cells = page->cells.get();
  const size_t step = page->rows ? Row::kWords : 1, words = page->is_alike() ? 1 : Page::kWords;
  const auto state = [&](size_t word) {
    return state_of(cells ? cells[word] : page->rows ? page->rows[word / Row::kWords].first : page->whole[0]);
  };
  page->state = state(0);
  size_t same = step;
  while (same < words && state(same) == page->state) same += step;
  if (same >= words) return;
  page->states.reset(new unsigned char[Page::kWords]);
  for (size_t word = 0; word < Page::kWords; ++word) page->states[word] = state(word);
}

// Makes a page of a core's own beside another's.
void copy_states(const Page &from, Page *page) {
  page->whole[0].write = uint64_t{from.state} << kWrittenShift;
  if (!from.states) return;
  give_cells(page);
  for (size_t word = 0; word < Page::kWords; ++word) page->cells[word].write = uint64_t{from.states[word]} << kWrittenShift;
}

Page *shared_page(uintptr_t number) {
  Shadow &all = shadow();
  Page *page = nullptr;
  {
    const std::lock_guard<std::mutex> hold(all.lock);
    const auto [found, is_new] = all.pages.try_emplace(number);
    page = &found->second;
    if (is_new) read_states(number, page, 0, Page::kSize);
    if (page->shared_kernel != all.kernel) take_page(page);
    if (page->owner == this_core) return page;
  }
  const auto [found, is_new] = all.others.own().try_emplace(number);
  if (is_new) copy_states(*page, &found->second);
  return &found->second;
}

void (*before_changes)();

// A kernel that takes or frees memory while others of its blocks run: this core's pages change.
void own_pages_changed(uintptr_t base, size_t size) {
  if (before_changes) before_changes();
  for (uintptr_t number = base / Page::kSize; number <= (base + size - 1) / Page::kSize; ++number) {
    const uintptr_t page = number * Page::kSize;
    read_states(number, shared_page(number), std::max(base, page) - page, std::min(base + size, page + Page::kSize) - page);
  }
}

void shadow_changed(uintptr_t base, size_t size) {
  if (core_context && shadow().is_shared) return own_pages_changed(base, size);
  const std::lock_guard<std::recursive_mutex> hold(check_lock());
  if (before_changes) before_changes();
  const uintptr_t first = base / Page::kSize, last = (base + size - 1) / Page::kSize;
  const auto change = [&](uintptr_t number, Page *page) {
    const uintptr_t from = std::max(base, number * Page::kSize) - number * Page::kSize;
    const uintptr_t to = std::min(base + size, (number + 1) * Page::kSize) - number * Page::kSize;
    read_states(number, page, from, to);
  };
  // Pages that nobody has touched have no shadow, and few may be of a big range.
  if (last - first > pages().size()) {
    for (auto &[number, page] : pages()) {
      if (number >= first && number <= last) change(number, &page);
    }
    return;
  }
  for (uintptr_t number = first; number <= last; ++number) {
    const auto found = pages().find(number);
    if (found != pages().end()) change(number, &found->second);
  }
}

}  // namespace

void before_shadow_changes(void (*call)()) {
  const std::lock_guard<std::recursive_mutex> hold(check_lock());
  before_changes = call;
}

std::recursive_mutex &check_lock() {
  static std::recursive_mutex &lock = *new std::recursive_mutex;
  return lock;
}

__hiprt_check &check_context() {
  static auto &all = *new PerCore<Context>;
  return core_context ? *core_context : all.own().context;
}

void share_shadow() {
  shadow().is_shared = true;
  ++shadow().kernel;
}

void unshare_shadow(void (*join)(uintptr_t address, Page *page, Page *other)) {
  Shadow &all = shadow();
  all.is_shared = false;
  forget_recent_pages();
  for (size_t core = 0; core < all.others.count(); ++core) {
    Pages *others = all.others.of(core);
    if (!others) continue;
    for (auto &[number, other] : *others) join(number * Page::kSize, &all.pages[number], &other);
    others->clear();
  }
}

void forget_recent_pages() {
  __hiprt_check &context = check_context();
  std::fill(std::begin(context.recent), std::end(context.recent), kNoPage);
}

Page *shadow_page(uintptr_t address) {
  const uintptr_t number = address / Page::kSize;
  if (shadow().is_shared) return shared_page(number);
  const auto [found, is_new] = pages().try_emplace(number);
  if (is_new) read_states(number, &found->second, 0, Page::kSize);
  return &found->second;
}

void give_cells(Page *page) {
  if (page->cells) return;
  page->cells.reset(new Cell[2 * Page::kWords]);
  Cell *cells = page->cells.get();
  for (size_t i = 0; i < 2; ++i) std::fill_n(cells + i * Page::kWords, Page::kWords, page->whole[i]);
  for (size_t w = 0; page->rows && w < Page::kWords; ++w) cells[w] = page->rows[w / Row::kWords].cell(w % Row::kWords);
  page->rows.reset();
}

bool give_rows(Page *page) {
  const Cell &second = page->whole[1];
  if (page->cells || second.write || second.read) return false;
  if (page->rows) return true;
  page->rows.reset(new Row[Page::kRows]);
  std::fill_n(page->rows.get(), Page::kRows, Row{page->whole[0], 0, 0});
  return true;
}

Cell *shadow_cell(uintptr_t address) {
  const uintptr_t number = address / Page::kSize;
  __hiprt_check_page &recent = recent_of(number);
  if (recent.number != number) {
    Page *page = shadow_page(address);
    give_cells(page);
    recent = {number, page->cells.get()};
  }
  return &recent.cells[address % Page::kSize / 4];
}

void join_cells(uintptr_t address, Page *page) {
  if (!page->cells) return;
  Row rows[Page::kRows];
  for (size_t i = 0; i < Page::kRows; ++i) {
    const Cell *cells = &page->cells[i * Row::kWords];
    const auto written_each = words_each(cells, &Cell::write), read_each = words_each(cells, &Cell::read);
    if (!written_each || !read_each || cells[0].read & (kMoreBit | kReadersBit)) return;
    rows[i] = {cells[0], *written_each, *read_each};
  }
  __hiprt_check_page &recent = recent_of(address / Page::kSize);
  if (recent.cells == page->cells.get()) recent = kNoPage;
  page->cells.reset();
  page->whole[1] = {};
  page->rows.reset(new Row[Page::kRows]);
  std::copy(rows, rows + Page::kRows, page->rows.get());
}

size_t plain_words(const Page &page, size_t begin, size_t most, bool reads) {
  const uint64_t needed = uint64_t{15} << kUsableShift | (reads ? uint64_t{15} << kWrittenShift : 0);
  const uint32_t before = check_context().before;
  size_t count = 0;
  if (!page.rows) {
    for (const Cell *cell = &page.cells[begin]; count < most && is_plain(*cell, needed, before); ++cell, ++count) {
      if (cell->read & kReadersBit && who(cell[Page::kWords].read) >= before) break;
    }
    return count;
  }
  // The last word of a row has its latest access.
  while (count + Row::kWords <= most && is_plain(page.rows[(begin + count) / Row::kWords].cell(Row::kWords - 1), needed, before)) {
    count += Row::kWords;
  }
  return count;
}

void note_words(Page *page, size_t begin, size_t count, uint64_t access, unsigned each, bool writes) {
  if (begin % Row::kWords || count % Row::kWords) give_cells(page);
  for (size_t word = 0; page->rows && word < count; word += Row::kWords) {
    Row &row = page->rows[(begin + word) / Row::kWords];
    note_access(&row.first, access + (each ? word / each : 0), writes);
    (writes ? row.written_each : row.read_each) = each;
    if (writes) row.read_each = 0;
  }
  if (!page->cells) return;
  const size_t step = each ? each : count;
  for (Cell *cell = &page->cells[begin], *end = cell + count; cell < end; cell += step, ++access) {
    for (size_t word = 0; word < step; ++word) note_access(cell + word, access, writes);
  }
}

void forget_accesses() {
  const auto forget = [](Cell *first, Cell *second) { *first = {first->write & kStates, 0}, *second = {}; };
  for (auto &[number, page] : pages()) {
    forget(&page.whole[0], &page.whole[1]);
    for (size_t i = 0; page.rows && i < Page::kRows; ++i) page.rows[i] = {{page.rows[i].first.write & kStates, 0}, 0, 0};
    for (size_t w = 0; page.cells && w < Page::kWords; ++w) forget(&page.cells[w], &page.cells[w + Page::kWords]);
  }
}

void memory_taken(uintptr_t base, size_t size, bool initialised, const HostStack &stack) {
  if (!is_checking() || size == 0) return;
  add_range(base, size, initialised, stack);
  shadow_changed(base, size);
}

void module_memory(uintptr_t base, size_t size) {
  add_module_range(base, size);
  shadow_changed(base, size);
}

void module_memory_gone(uintptr_t base, size_t size) {
  remove_module_range(base);
  shadow_changed(base, size);
}

void memory_given_back(uintptr_t base, const HostStack &stack) {
  if (!is_checking()) return;
  if (const size_t size = remove_range(base, stack)) shadow_changed(base, size);
}

void memory_divided(uintptr_t base) {
  if (const size_t size = is_checking() ? divide_range(base) : 0) shadow_changed(base, size);
}

void part_given_back(uintptr_t base, const HostStack &stack) {
  if (const size_t size = remove_part(base, stack)) shadow_changed(base, size);
}

}  // namespace cpu
