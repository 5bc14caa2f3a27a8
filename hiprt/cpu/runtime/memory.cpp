#include "runtime/memory.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "check/checks.h"
#include "check/shadow.h"
#include "flags.h"
#include "runtime/device.h"

namespace cpu {
namespace {

struct Registry {
  mutable std::shared_mutex lock;
  std::map<uintptr_t, Allocation> by_base;
  unsigned long long last_id = 0;
};

Registry &registry() {
  static Registry &all = *new Registry;
  return all;
}

std::atomic<size_t> reserved[kMaxDevices];

uintptr_t number(const void *address) { return reinterpret_cast<uintptr_t>(address); }

// Returns the allocation that contains the address. The caller holds the lock.
const Allocation *find_locked(const Registry &all, const void *address) {
  auto it = all.by_base.upper_bound(number(address));
  if (it == all.by_base.begin()) return nullptr;
  const Allocation &before = (--it)->second;
  return number(address) - it->first < before.size ? &before : nullptr;
}

// Returns whether a known range overlaps. The caller holds the lock.
bool overlaps_locked(const Registry &all, const void *base, size_t size) {
  const auto it = all.by_base.lower_bound(number(base));
  return find_locked(all, base) || (it != all.by_base.end() && it->first - number(base) < size);
}

void add_locked(Registry &all, Allocation allocation) {
  allocation.id = ++all.last_id;
  all.by_base[number(allocation.base)] = allocation;
}

// Returns whether the host may have written such memory without a call.
bool may_be_written(MemoryKind kind) { return kind != MemoryKind::Device && kind != MemoryKind::Pool; }

bool is_owned(MemoryKind kind) { return is_device_memory(kind) || kind == MemoryKind::Host; }

// While kernels are checked, memory has some on both sides that nobody owns, and freed memory is not used again at once.
constexpr size_t kMargin = 4096;
constexpr size_t kKeptFrees = 256;

void *take_aligned(size_t size) {
  if (!is_checking()) return std::aligned_alloc(kMemoryAlignment, round_to_alignment(size));
  auto *base = static_cast<char *>(std::aligned_alloc(kMemoryAlignment, round_to_alignment(size) + 2 * kMargin));
  return base ? base + kMargin : nullptr;
}

void give_back(void *base) {
  if (!is_checking()) return std::free(base);
  static std::mutex &lock = *new std::mutex;
  static std::deque<void *> &kept = *new std::deque<void *>;
  const std::lock_guard hold(lock);
  kept.push_back(static_cast<char *>(base) - kMargin);
  if (kept.size() <= kKeptFrees) return;
  std::free(kept.front());
  kept.pop_front();
}

}  // namespace

size_t round_to_alignment(size_t size) { return (size + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment; }

bool is_device_memory(MemoryKind kind) { return kind == MemoryKind::Device || kind == MemoryKind::Managed; }

hipError_t reserve(int device, size_t size, void **out) {
  const size_t limit = flags().memory_bytes;
  const size_t before = reserved[device].fetch_add(size);
  void *base = nullptr;
  if (size <= limit && before <= limit - size) base = take_aligned(size);
  if (!base) reserved[device].fetch_sub(size);
  *out = base;
  return base ? hipSuccess : hipErrorOutOfMemory;
}

void unreserve(int device, void *base, size_t size) {
  give_back(base);
  reserved[device].fetch_sub(size);
}

size_t reserved_bytes(int device) { return reserved[device].load(); }

void show(void *base, size_t size, MemoryKind kind, int device, unsigned flags, hipMemPool_t pool) {
  Registry &all = registry();
  {
    const std::lock_guard lock(all.lock);
    add_locked(all, {base, size, kind, device, flags, pool, 0});
  }
  memory_taken(number(base), size, may_be_written(kind));
}

bool show_unknown(void *base, size_t size, MemoryKind kind, int device, unsigned flags) {
  Registry &all = registry();
  {
    const std::lock_guard lock(all.lock);
    if (overlaps_locked(all, base, size)) return false;
    add_locked(all, {base, size, kind, device, flags, nullptr, 0});
  }
  memory_taken(number(base), size, may_be_written(kind));
  return true;
}

bool hide(void *base) {
  return take_allocation(base, [](MemoryKind) { return true; }).has_value();
}

std::optional<Allocation> take_allocation(const void *base, KindTest wanted) {
  Registry &all = registry();
  std::unique_lock lock(all.lock);
  const auto it = all.by_base.find(number(base));
  if (it == all.by_base.end() || !wanted(it->second.kind)) return std::nullopt;
  const Allocation found = it->second;
  all.by_base.erase(it);
  lock.unlock();
  memory_given_back(number(base));
  return found;
}

void release(const Allocation &allocation) {
  if (is_device_memory(allocation.kind)) {
    unreserve(allocation.device, allocation.base, allocation.size);
  } else {
    std::free(allocation.base);
  }
}

std::optional<Allocation> find_allocation(const void *address) {
  const Registry &all = registry();
  const std::shared_lock lock(all.lock);
  const Allocation *found = find_locked(all, address);
  return found ? std::optional<Allocation>(*found) : std::nullopt;
}

bool in_bounds(const void *address, size_t size) {
  if (size == 0) return true;
  if (!address || size > SIZE_MAX - number(address)) return false;
  const std::optional<Allocation> found = find_allocation(address);
  return !found || size <= found->size - (number(address) - number(found->base));
}

bool is_pageable(const void *address) { return !find_allocation(address); }

void free_all(int device) {
  std::vector<Allocation> gone;
  Registry &all = registry();
  {
    const std::lock_guard lock(all.lock);
    for (auto it = all.by_base.begin(); it != all.by_base.end();) {
      const bool mine = it->second.device == device && is_owned(it->second.kind);
      if (mine) gone.push_back(it->second);
      it = mine ? all.by_base.erase(it) : std::next(it);
    }
  }
  for (const Allocation &allocation : gone) {
    memory_given_back(number(allocation.base));
    release(allocation);
  }
}

}  // namespace cpu
