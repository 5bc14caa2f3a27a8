#include "check/known_memory.h"

#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <mutex>

#include "check/checks.h"

namespace cpu {
namespace {

constexpr int kNamed = 8;  // functions of a stack that a report names
constexpr size_t kReach = 1 << 16;  // how far from memory an address counts as beyond its end

struct Range {
  uintptr_t base;
  size_t size;
  bool initialised, freed;
  HostStack taken, given_back;
};

struct State {
  std::mutex lock;
  std::map<uintptr_t, Range> live, freed, modules;  // by base
  std::map<uintptr_t, Range> divided;               // their parts are live ranges
};

State &state() {
  static State &all = *new State;
  return all;
}

std::string text_of(const HostStack &stack, const char *title) {
  if (!stack.text.empty()) return title + stack.text;
  std::string out;
  Dl_info own{};
  dladdr(reinterpret_cast<void *>(&state), &own);
  int named = 0;
  for (int i = 0; i < stack.count && named < kNamed; ++i) {
    Dl_info info{};
    if (!dladdr(stack.frames[i], &info) || info.dli_fbase == own.dli_fbase) continue;
    ++named;
    const std::string file = info.dli_fname ? info.dli_fname : "?";
    char offset[32];
    std::snprintf(offset, sizeof offset, "+0x%zx",
                  static_cast<size_t>(static_cast<char *>(stack.frames[i]) - static_cast<char *>(info.dli_fbase)));
    out += std::string(out.empty() ? "" : " < ") + (info.dli_sname ? info.dli_sname : "?") + " (" +
           file.substr(file.rfind('/') + 1) + offset + ")";
  }
  return out.empty() ? "" : title + out;
}

// Forgets the ranges that have bytes in another one, because that is used again.
void forget(std::map<uintptr_t, Range> *ranges, uintptr_t base, size_t size) {
  auto it = ranges->upper_bound(base);
  if (it != ranges->begin() && std::prev(it)->second.base + std::prev(it)->second.size > base) --it;
  while (it != ranges->end() && it->first < base + size) it = ranges->erase(it);
}

// Moves a range to those that were freed, and returns its bytes; 0 if there is none at this address.
size_t free_range(std::map<uintptr_t, Range> *ranges, uintptr_t base, const HostStack &stack) {
  const auto found = ranges->find(base);
  if (found == ranges->end()) return 0;
  Range range = found->second;
  ranges->erase(found);
  range.freed = true;
  range.given_back = stack;
  state().freed[base] = range;
  return range.size;
}

const Range *find(const std::map<uintptr_t, Range> &ranges, uintptr_t address, size_t reach) {
  const auto after = ranges.upper_bound(address);
  if (after == ranges.begin()) return nullptr;
  const Range &r = std::prev(after)->second;
  return address - r.base < r.size + reach ? &r : nullptr;
}

void mark(const std::map<uintptr_t, Range> &ranges, uintptr_t page, size_t size, ByteState *out) {
  auto it = ranges.upper_bound(page);
  if (it != ranges.begin()) --it;
  for (; it != ranges.end() && it->first < page + size; ++it) {
    const Range &r = it->second;
    const uintptr_t begin = std::max(r.base, page), end = std::min(r.base + r.size, page + size);
    if (begin >= end) continue;
    const ByteState what = r.freed ? ByteState::Freed : r.initialised ? ByteState::Initialised : ByteState::Uninitialised;
    std::fill(out + (begin - page), out + (end - page), what);
  }
}

}  // namespace

HostStack host_stack() {
  HostStack stack;
  if (is_checking()) stack.count = backtrace(stack.frames.data(), static_cast<int>(stack.frames.size()));
  return stack;
}

void add_range(uintptr_t base, size_t size, bool initialised, const HostStack &stack) {
  const Range range{base, size, initialised, false, stack, {}};
  State &all = state();
  const std::lock_guard<std::mutex> hold(all.lock);
  forget(&all.freed, base, size);
  all.live[base] = range;
}

size_t remove_range(uintptr_t base, const HostStack &stack) {
  State &all = state();
  const std::lock_guard<std::mutex> hold(all.lock);
  const auto divided = all.divided.find(base);
  if (divided == all.divided.end()) return free_range(&all.live, base, stack);
  forget(&all.live, base, divided->second.size);
  forget(&all.freed, base, divided->second.size);
  return free_range(&all.divided, base, stack);
}

size_t divide_range(uintptr_t base) {
  State &all = state();
  const std::lock_guard<std::mutex> hold(all.lock);
  const auto found = all.live.find(base);
  if (found == all.live.end()) return 0;
  const Range range = found->second;
  all.live.erase(found);
  all.divided[base] = range;
  return range.size;
}

size_t remove_part(uintptr_t base, const HostStack &stack) {
  State &all = state();
  const std::lock_guard<std::mutex> hold(all.lock);
  return free_range(&all.live, base, stack);
}

void add_module_range(uintptr_t base, size_t size) {
  State &all = state();
  const std::lock_guard<std::mutex> hold(all.lock);
  forget(&all.freed, base, size);
  all.modules[base] = {base, size, true, false, {}, {}};
}

void remove_module_range(uintptr_t base) {
  State &all = state();
  const std::lock_guard<std::mutex> hold(all.lock);
  all.modules.erase(base);
}

MemoryAt memory_at(uintptr_t address) {
  State &all = state();
  const std::lock_guard<std::mutex> hold(all.lock);
  const Range *range = find(all.live, address, 0);
  if (!range) range = find(all.freed, address, 0);
  if (!range) range = find(all.modules, address, 0);
  if (!range) range = find(all.live, address, kReach);
  if (!range) range = find(all.freed, address, kReach);
  if (!range) return {};
  return {true, range->freed, range->base, range->size, text_of(range->taken, "taken by "),
          text_of(range->given_back, "given back by ")};
}

void fill_states(uintptr_t page, size_t size, ByteState *out) {
  State &all = state();
  const std::lock_guard<std::mutex> hold(all.lock);
  std::fill(out, out + size, ByteState::Unknown);
  mark(all.modules, page, size, out);
  mark(all.freed, page, size, out);
  mark(all.live, page, size, out);
}

}  // namespace cpu
