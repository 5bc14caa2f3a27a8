#include "runtime/advice.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <vector>

#include "runtime/shared_memory.h"

namespace cpu {
namespace {

// The advice from each address up to the next one. There is always an entry for address 0.
using Ranges = std::map<uintptr_t, Advice>;

struct Table {
  std::mutex lock;
  Ranges ranges{{0, {}}};
};

Table &table() {
  static Table &all = *new Table;
  return all;
}

struct Pages {
  uintptr_t begin, end;
};

Pages pages_of(const void *address, size_t size) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  return {begin / page_size() * page_size(), round_to_pages(begin + size)};
}

// Returns the entry that begins at an address, which it makes if there is none.
Ranges::iterator cut(Ranges &ranges, uintptr_t at) {
  const auto after = ranges.upper_bound(at), before = std::prev(after);
  return before->first == at ? before : ranges.emplace_hint(after, at, before->second);
}

int agreed(int a, int b) { return a == b ? a : hipInvalidDeviceId; }

void agree(Advice &common, const Advice &other) {
  std::set<int> both;
  std::set_intersection(common.accessed_by.begin(), common.accessed_by.end(), other.accessed_by.begin(),
                        other.accessed_by.end(), std::inserter(both, both.end()));
  common = {common.read_mostly && other.read_mostly, agreed(common.preferred, other.preferred), std::move(both),
            agreed(common.prefetched, other.prefetched), common.coarse && other.coarse};
}

}  // namespace

void change_advice(const void *address, size_t size, const std::function<void(Advice &)> &change) {
  const Pages pages = pages_of(address, size);
  const std::lock_guard<std::mutex> hold(table().lock);
  Ranges &ranges = table().ranges;
  const auto end = cut(ranges, pages.end);
  for (auto it = cut(ranges, pages.begin); it != end; ++it) change(it->second);
}

Advice common_advice(const void *address, size_t size) {
  const Pages pages = pages_of(address, size);
  const std::lock_guard<std::mutex> hold(table().lock);
  const Ranges &ranges = table().ranges;
  auto it = std::prev(ranges.upper_bound(pages.begin));
  Advice common = it->second;
  while (++it != ranges.end() && it->first < pages.end) agree(common, it->second);
  return common;
}

void forget_advice(const void *address, size_t size) {
  const Pages pages = pages_of(address, size);
  const std::lock_guard<std::mutex> hold(table().lock);
  Ranges &ranges = table().ranges;
  if (ranges.size() == 1) return;
  const auto end = cut(ranges, pages.end), begin = cut(ranges, pages.begin);
  begin->second = {};
  ranges.erase(std::next(begin), end);
}

}  // namespace cpu
