#include "runtime/memory.h"

#include <sys/mman.h>

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
#include "runtime/advice.h"
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

// The files under memory that other processes use, by its base.
struct SharedTable {
  std::mutex lock;
  std::map<void *, std::shared_ptr<MemoryFile>> files;
};

SharedTable &shared_table() {
  static SharedTable &all = *new SharedTable;
  return all;
}

// Returns false if the memory stays another process's too, and is not to be used again.
bool unshare(void *base) {
  SharedTable &all = shared_table();
  const std::lock_guard hold(all.lock);
  const auto it = all.files.find(base);
  if (it == all.files.end()) return true;
  const bool is_own = unshare_pages(base, it->second->size);
  all.files.erase(it);
  return is_own;
}

// While kernels are checked, memory has a page on both sides that nobody owns, and freed memory is not used again at once.
constexpr size_t kKeptFrees = 256;

// Memory has pages of its own, so that they can be shared with another process.
void *take_aligned(size_t size) {
  if (!is_checking()) return std::aligned_alloc(page_size(), round_to_pages(size));
  auto *base = static_cast<char *>(std::aligned_alloc(page_size(), round_to_pages(size) + 2 * page_size()));
  return base ? base + page_size() : nullptr;
}

void give_back(void *base) {
  if (!unshare(base)) return;
  if (!is_checking()) return std::free(base);
  static std::mutex &lock = *new std::mutex;
  static std::deque<void *> &kept = *new std::deque<void *>;
  const std::lock_guard hold(lock);
  kept.push_back(static_cast<char *>(base) - page_size());
  if (kept.size() <= kKeptFrees) return;
  std::free(kept.front());
  kept.pop_front();
}

}  // namespace

size_t round_to_alignment(size_t size) { return (size + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment; }

bool is_device_memory(MemoryKind kind) { return kind == MemoryKind::Device || kind == MemoryKind::Managed; }

bool count_memory(int device, size_t size) {
  const size_t limit = memory_size();
  if (size > limit) return false;
  if (reserved[device].fetch_add(size) <= limit - size) return true;
  uncount_memory(device, size);
  return false;
}

void uncount_memory(int device, size_t size) { reserved[device].fetch_sub(size); }

size_t memory_size() { return flags().memory_bytes; }

hipError_t reserve(int device, size_t size, void **out) {
  *out = nullptr;
  if (!count_memory(device, size)) return hipErrorOutOfMemory;
  *out = take_aligned(size);
  if (!*out) uncount_memory(device, size);
  return *out ? hipSuccess : hipErrorOutOfMemory;
}

hipError_t reserve_shared(int device, size_t size, void **out) {
  if (const hipError_t error = reserve(device, size, out)) return error;
  std::shared_ptr<MemoryFile> file = MemoryFile::make(round_to_pages(size));
  if (!file || !file->map(file->size, *out, PROT_READ | PROT_WRITE)) {
    unreserve(device, *out, size);
    return hipErrorOutOfMemory;
  }
  SharedTable &all = shared_table();
  const std::lock_guard hold(all.lock);
  all.files[*out] = std::move(file);
  return hipSuccess;
}

void unreserve(int device, void *base, size_t size) {
  give_back(base);
  uncount_memory(device, size);
}

size_t reserved_bytes(int device) { return reserved[device].load(); }

void show(void *base, size_t size, MemoryKind kind, int device, unsigned flags, hipMemPool_t pool) {
  Registry &all = registry();
  {
    const std::lock_guard lock(all.lock);
    add_locked(all, {base, size, kind, device, flags, pool, 0, {}});
  }
  // Memory of pools comes and goes when its stream gets there, which pool.cpp and graph_memory.cpp note.
  if (kind != MemoryKind::Pool) memory_taken(number(base), size, may_be_written(kind));
}

bool show_unknown(void *base, size_t size, MemoryKind kind, int device, unsigned flags) {
  Registry &all = registry();
  {
    const std::lock_guard lock(all.lock);
    if (overlaps_locked(all, base, size)) return false;
    add_locked(all, {base, size, kind, device, flags, nullptr, 0, {}});
  }
  memory_taken(number(base), size, may_be_written(kind));
  return true;
}

bool hide(void *base) {
  return take_allocation(base, [](MemoryKind) { return true; }).has_value();
}

void note_shape(void *base, const PitchedShape &shape) {
  Registry &all = registry();
  const std::lock_guard lock(all.lock);
  const auto it = all.by_base.find(number(base));
  if (it != all.by_base.end()) it->second.shape = shape;
}

void note_syncs(void *base, bool syncs) {
  Registry &all = registry();
  const std::lock_guard lock(all.lock);
  const auto it = all.by_base.find(number(base));
  if (it != all.by_base.end()) it->second.syncs = syncs;
}

std::optional<Allocation> take_allocation(const void *base, KindTest wanted) {
  Registry &all = registry();
  std::unique_lock lock(all.lock);
  const auto it = all.by_base.find(number(base));
  if (it == all.by_base.end() || !wanted(it->second.kind)) return std::nullopt;
  const Allocation found = it->second;
  all.by_base.erase(it);
  lock.unlock();
  if (found.kind != MemoryKind::Pool) memory_given_back(number(base));
  return found;
}

std::shared_ptr<MemoryFile> share_memory(const Allocation &allocation) {
  SharedTable &all = shared_table();
  const std::lock_guard hold(all.lock);
  std::shared_ptr<MemoryFile> &file = all.files[allocation.base];
  if (!file) file = share_pages(allocation.base, round_to_pages(allocation.size));
  if (file) return file;
  all.files.erase(allocation.base);
  return nullptr;
}

void release(const Allocation &allocation) {
  if (allocation.kind == MemoryKind::Managed) forget_advice(allocation.base, allocation.size);
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

bool is_host_memory(const void *address) {
  const std::optional<Allocation> found = find_allocation(address);
  return !found || found->kind == MemoryKind::Host || found->kind == MemoryKind::Registered;
}

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
