#include "check/shadow.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "check/checks.h"

namespace cpu {
namespace {

struct Pages {
  std::unordered_map<uintptr_t, std::unique_ptr<Page>> all;
  struct Recent {
    uintptr_t number = 0;
    Page *page = nullptr;
  } recent[256];
};

Pages &pages() {
  static Pages &shadow = *new Pages;
  return shadow;
}

// Forgets the accesses of a range, whose memory has come or gone, and reads its states anew.
void shadow_changed(uintptr_t base, size_t size) {
  const std::lock_guard<std::recursive_mutex> hold(check_lock());
  const uintptr_t last = (base + size - 1) / Page::kSize;
  ByteState states[Page::kSize];
  // Pages that nobody has touched have no shadow, and few may be of a big range.
  const auto change = [&](uintptr_t number, Page &page) {
    fill_states(number * Page::kSize, Page::kSize, states);
    const uintptr_t from = std::max(base, number * Page::kSize) - number * Page::kSize;
    const uintptr_t to = std::min(base + size, (number + 1) * Page::kSize) - number * Page::kSize;
    std::copy(states + from, states + to, page.state + from);
    if (from == 0 && to == Page::kSize) page.words.reset(), page.whole = {};
    if (!page.words && page.whole.write[0].block == 0 && page.whole.read[0].block == 0) return;
    for (uintptr_t w = from / 4; w <= (to - 1) / 4; ++w) *page.word(w * 4) = Word{};
  };
  if (last - base / Page::kSize > pages().all.size()) {
    for (auto &[number, page] : pages().all) {
      if (number >= base / Page::kSize && number <= last) change(number, *page);
    }
    return;
  }
  for (uintptr_t number = base / Page::kSize; number <= last; ++number) {
    const auto found = pages().all.find(number);
    if (found != pages().all.end()) change(number, *found->second);
  }
}

}  // namespace

std::recursive_mutex &check_lock() {
  static std::recursive_mutex &lock = *new std::recursive_mutex;
  return lock;
}

Page *shadow_page(uintptr_t address) {
  const uintptr_t number = address / Page::kSize;
  Pages::Recent &recent = pages().recent[number % 256];
  if (recent.number == number && recent.page) return recent.page;
  std::unique_ptr<Page> &page = pages().all[number];
  if (!page) {
    page = std::make_unique<Page>();
    fill_states(number * Page::kSize, Page::kSize, page->state);
  }
  recent = {number, page.get()};
  return page.get();
}

void memory_taken(uintptr_t base, size_t size, bool initialised) {
  if (!is_checking() || size == 0) return;
  add_range(base, size, initialised);
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

void memory_given_back(uintptr_t base) {
  if (!is_checking()) return;
  if (const size_t size = remove_range(base)) shadow_changed(base, size);
}

}  // namespace cpu
