#include "runtime/virtual_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <unordered_map>

#include "handles.h"
#include "runtime/memory.h"

namespace cpu {
namespace {

struct Mapping {
  size_t size;
  hipMemGenericAllocationHandle_t handle;
  std::shared_ptr<PhysicalMemory> memory;
  std::map<int, hipMemAccessFlags> access;  // by device
};

struct Handle {
  std::shared_ptr<PhysicalMemory> memory;
  unsigned uses;
};

struct Table {
  std::mutex lock;
  std::map<uintptr_t, size_t> reserved;  // sizes by base
  std::map<uintptr_t, Mapping> mapped;
  std::unordered_map<hipMemGenericAllocationHandle_t, Handle> handles;
};

Table &table() {
  static Table &all = *new Table;
  return all;
}

using Lock = std::lock_guard<std::mutex>;

uintptr_t number(const void *address) { return reinterpret_cast<uintptr_t>(address); }

// Returns the entry of a map from bases that an address lies in, or the end.
template <class Map, class Size>
auto containing(Map &map, uintptr_t address, Size &&size_of) {
  auto it = map.upper_bound(address);
  if (it == map.begin()) return map.end();
  --it;
  return address - it->first < size_of(it->second) ? it : map.end();
}

auto mapping_at(Table &all, const void *address) {
  return containing(all.mapped, number(address), [](const Mapping &m) { return m.size; });
}

void *take_addresses(void *where, size_t size, int extra) {
  void *const base = mmap(where, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | extra, -1, 0);
  return base == MAP_FAILED ? nullptr : base;
}

bool is_unit(size_t size) { return size != 0 && size % page_size() == 0; }

}  // namespace

PhysicalMemory::~PhysicalMemory() {
  if (counts) uncount_memory(properties.location.id, file->size);
}

hipError_t reserve_addresses(void **out, size_t size, size_t alignment, void *wanted) {
  if (!is_unit(size) || (alignment & (alignment - 1))) return hipErrorOutOfMemory;
  *out = nullptr;
  const size_t unit = std::max(alignment, page_size());
  size_t room = 0;
  if (__builtin_add_overflow(size, unit - page_size(), &room)) return hipErrorOutOfMemory;
  void *const base = take_addresses(wanted, room, 0);  // a wanted address is a hint
  if (!base) return hipErrorOutOfMemory;
  const uintptr_t begin = (number(base) + unit - 1) / unit * unit, end = begin + size;
  if (begin > number(base)) munmap(base, begin - number(base));
  if (number(base) + room > end) munmap(reinterpret_cast<void *>(end), number(base) + room - end);
  const Lock hold(table().lock);
  table().reserved[begin] = size;
  *out = reinterpret_cast<void *>(begin);
  return hipSuccess;
}

hipError_t free_addresses(void *base, size_t size) {
  Table &all = table();
  const Lock hold(all.lock);
  const auto it = all.reserved.find(number(base));
  if (it == all.reserved.end() || it->second != size) return hipErrorInvalidValue;
  const auto next = all.mapped.lower_bound(number(base));
  if (next != all.mapped.end() && next->first - number(base) < size) return hipErrorInvalidValue;
  munmap(base, size);
  all.reserved.erase(it);
  return hipSuccess;
}

hipError_t add_physical(hipMemGenericAllocationHandle_t *out, std::shared_ptr<PhysicalMemory> memory) {
  const auto handle = reinterpret_cast<hipMemGenericAllocationHandle_t>(static_cast<uintptr_t>(next_handle()));
  const Lock hold(table().lock);
  table().handles[handle] = {std::move(memory), 1};
  *out = handle;
  return hipSuccess;
}

std::shared_ptr<PhysicalMemory> find_physical(hipMemGenericAllocationHandle_t handle) {
  const Lock hold(table().lock);
  const auto it = table().handles.find(handle);
  return it == table().handles.end() ? nullptr : it->second.memory;
}

hipError_t release_physical(hipMemGenericAllocationHandle_t handle) {
  std::shared_ptr<PhysicalMemory> last;
  const Lock hold(table().lock);
  const auto it = table().handles.find(handle);
  if (it == table().handles.end()) return hipErrorInvalidValue;
  if (--it->second.uses) return hipSuccess;
  last = std::move(it->second.memory);
  table().handles.erase(it);
  return hipSuccess;
}

hipError_t retain_physical(hipMemGenericAllocationHandle_t *out, const void *address) {
  Table &all = table();
  const Lock hold(all.lock);
  const auto it = mapping_at(all, address);
  if (it == all.mapped.end()) return hipErrorInvalidValue;
  // A handle that was released comes back, as long as its memory is mapped.
  Handle &handle = all.handles[it->second.handle];
  handle.memory = it->second.memory;
  ++handle.uses;
  *out = it->second.handle;
  return hipSuccess;
}

hipError_t map_physical(void *base, size_t size, hipMemGenericAllocationHandle_t handle) {
  Table &all = table();
  const Lock hold(all.lock);
  const auto found = all.handles.find(handle);
  const auto range = containing(all.reserved, number(base), [](size_t bytes) { return bytes; });
  if (found == all.handles.end() || range == all.reserved.end()) return hipErrorInvalidValue;
  const std::shared_ptr<PhysicalMemory> &memory = found->second.memory;
  const size_t room = range->second - (number(base) - range->first);
  if (!is_unit(size) || number(base) % page_size() || size > room || size > memory->file->size) return hipErrorInvalidValue;
  const auto next = all.mapped.lower_bound(number(base));
  const bool taken = mapping_at(all, base) != all.mapped.end() || (next != all.mapped.end() && next->first - number(base) < size);
  if (taken || !memory->file->map(size, base, PROT_NONE)) return hipErrorInvalidValue;
  all.mapped[number(base)] = {size, handle, memory, {}};
  show(base, size, MemoryKind::Mapped, memory->properties.location.id, 0, nullptr);
  return hipSuccess;
}

hipError_t unmap_physical(void *base, size_t size) {
  Table &all = table();
  Mapping gone;
  const Lock hold(all.lock);
  const auto it = all.mapped.find(number(base));
  if (it == all.mapped.end() || it->second.size != size) return hipErrorInvalidValue;
  gone = std::move(it->second);
  all.mapped.erase(it);
  hide(base);
  return take_addresses(base, size, MAP_FIXED) ? hipSuccess : hipErrorUnknown;
}

hipError_t set_access(void *base, size_t size, int device, hipMemAccessFlags flags) {
  Table &all = table();
  const Lock hold(all.lock);
  const uintptr_t end = number(base) + size;
  auto first = all.mapped.find(number(base));
  auto last = first;
  uintptr_t reached = number(base);
  for (; last != all.mapped.end() && last->first == reached && reached < end; ++last) reached += last->second.size;
  // Whole mappings that follow each other, and nothing else.
  if (first == all.mapped.end() || reached != end) return hipErrorInvalidValue;
  for (; first != last; ++first) {
    Mapping &mapping = first->second;
    mapping.access[device] = flags;
    unsigned most = hipMemAccessFlagsProtNone;
    for (const auto &[each, allowed] : mapping.access) most |= allowed;
    const int protection = (most & hipMemAccessFlagsProtReadWrite ? PROT_READ : PROT_NONE) |
                           (most == hipMemAccessFlagsProtReadWrite ? PROT_WRITE : PROT_NONE);
    if (mprotect(reinterpret_cast<void *>(first->first), mapping.size, protection)) return hipErrorInvalidValue;
  }
  return hipSuccess;
}

hipError_t get_access(const void *address, int device, hipMemAccessFlags *out) {
  Table &all = table();
  const Lock hold(all.lock);
  const auto it = mapping_at(all, address);
  if (it == all.mapped.end()) return hipErrorInvalidValue;
  const auto found = it->second.access.find(device);
  *out = found == it->second.access.end() ? hipMemAccessFlagsProtNone : found->second;
  return hipSuccess;
}

}  // namespace cpu
