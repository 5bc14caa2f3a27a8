#include "runtime/pool.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "enumerator.h"
#include "graph/capture.h"
#include "graph/graph_memory.h"
#include "handles.h"
#include "quirks/quirks.h"
#include "runtime/device.h"
#include "runtime/memory.h"
#include "runtime/scheduler.h"
#include "runtime/status.h"
#include "runtime/stream.h"
#include "runtime/vector_clock.h"

namespace cpu {
namespace {

using Lock = std::lock_guard<std::mutex>;

constexpr size_t kGranule = 512;

// Memory of a pool; whole blocks are handed out.
struct Block {
  void *base;
  size_t size;
  // While free:
  hipStream_t stream = nullptr;  // where it was freed
  uint64_t tick = 0;
  Frees frees;  // the latest, and those that had not run when the block was handed out again
};

struct Pool {
  hipMemPool_t handle = nullptr;
  hipMemPoolProps props{};
  bool destroyed = false;
  int follow_events = 1;
  int opportunistic = 1;
  int internal_waits = 1;
  uint64_t threshold = 0;
  uint64_t used = 0, used_high = 0;
  uint64_t reserved = 0, reserved_high = 0;
  std::multimap<size_t, Block> free;
  std::map<int, hipMemAccessFlags> access;

  int device() const { return props.location.id; }
};

struct Live {
  std::shared_ptr<Pool> pool;
  Block block;
};

struct State {
  std::mutex mutex;
  std::vector<std::shared_ptr<Pool>> pools;  // destroyed ones too, while they hold memory
  Handles<hipMemPool_t, Pool> handles;
  std::map<int, std::shared_ptr<Pool>> defaults;
  std::map<int, std::shared_ptr<Pool>> current;
  std::map<void *, Live> live;
  Clocks clocks;
  std::atomic<bool> any_free{false};  // false: no clock to keep, nothing to release
};

State &state() {
  static State *instance = new State;
  return *instance;
}

// Marks the point in its stream where memory becomes free.
struct FreeWork : Work {
  FreeWork(void *b, size_t s, Flag f) : Work(hipGraphNodeTypeMemFree), base(b), size(s), reached(std::move(f)) {}
  hipError_t run() override {
    // Under pool_retag_race another stream may have the block by now (MLX allocator.cpp:99-105).
    if (quirk(Quirk::PoisonOnFree) || quirk(Quirk::PoolRetagRace)) poison(base, size);
    reached->store(true, std::memory_order_release);
    return hipSuccess;
  }
  void drop() override { run(); }
  std::shared_ptr<Work> clone() const override { return std::make_shared<FreeWork>(base, size, reached); }

  void *const base;
  const size_t size;
  const Flag reached;
};

// Holds a stream back until frees on other streams have run.
struct FreeWaitWork : Work {
  explicit FreeWaitWork(Frees f) : Work(hipGraphNodeTypeWaitEvent), frees(std::move(f)) {}
  bool ready() const override { return frees.have_run(); }
  hipError_t run() override { return hipSuccess; }
  std::shared_ptr<Work> clone() const override { return std::make_shared<FreeWaitWork>(frees); }

  const Frees frees;
};

// A name of the stream by which all threads mean the same: null streams are told apart by their devices.
hipStream_t key_of(hipStream_t stream) {
  if (!is_legacy(stream)) return canonical(stream);
  return reinterpret_cast<hipStream_t>(static_cast<uintptr_t>(current_device() + 1));
}

std::shared_ptr<Pool> add_pool(const hipMemPoolProps &props) {
  auto pool = std::make_shared<Pool>();
  pool->props = props;
  pool->handle = state().handles.add(pool.get());
  state().pools.push_back(pool);
  return pool;
}

std::shared_ptr<Pool> default_pool(int device) {
  std::shared_ptr<Pool> &pool = state().defaults[device];
  if (!pool) {
    hipMemPoolProps props{};
    props.allocType = hipMemAllocationTypePinned;
    props.location = {hipMemLocationTypeDevice, device};
    pool = add_pool(props);
  }
  return pool;
}

std::shared_ptr<Pool> current_pool(int device) {
  const std::shared_ptr<Pool> &pool = state().current[device];
  return pool ? pool : default_pool(device);
}

std::shared_ptr<Pool> find_pool(hipMemPool_t handle) {
  Pool *pool = state().handles.find(handle);
  if (!pool) return nullptr;
  return *std::find_if(state().pools.begin(), state().pools.end(), [&](const auto &p) { return p.get() == pool; });
}

using FreeBlock = std::multimap<size_t, Block>::iterator;

// Give a block back to the device; the block behind it.
FreeBlock give_back(Pool *pool, FreeBlock at) {
  unreserve(pool->device(), at->second.base, at->first);
  pool->reserved -= at->first;
  return pool->free.erase(at);
}

// Give blocks back, large ones first, while at least keep bytes stay reserved.
void release(Pool *pool, uint64_t keep) {
  for (auto it = pool->free.end(); it != pool->free.begin();) {
    --it;
    if (pool->reserved - it->first >= keep && it->second.frees.have_run()) it = give_back(pool, it);
  }
}

void forget_empty_pools() {
  auto &pools = state().pools;
  const auto over = [](const auto &pool) { return pool->destroyed && pool->reserved == 0; };
  pools.erase(std::remove_if(pools.begin(), pools.end(), over), pools.end());
}

// Blocks of other sizes are left to requests that need them.
size_t largest_fit(size_t size) { return size + size / 8 + kGranule; }

// The smallest usable free block of a size within bounds.
template <class Usable>
bool find_block(Pool &pool, size_t size, size_t largest, Usable usable, FreeBlock *out) {
  const auto end = pool.free.upper_bound(largest);
  for (auto it = pool.free.lower_bound(size); it != end; ++it) {
    if (!usable(it->second)) continue;
    *out = it;
    return true;
  }
  return false;
}

// Whether the block's free comes before the stream's next operation, by the order of both.
bool is_ordered(const Pool &pool, const Block &block, hipStream_t key) {
  return block.stream == key || (pool.follow_events && state().clocks.is_before(block.stream, block.tick, key));
}

// The same, or it has run. Under pool_retag_race nobody asks (MLX allocator.cpp:99-105).
bool usable_now(const Pool &pool, const Block &block, hipStream_t key) {
  if (is_ordered(pool, block, key) || quirk(Quirk::PoolRetagRace)) return true;
  return pool.opportunistic && block.frees.have_run();
}

// CLR hands a block of any larger size to a stream that it is safe for (hip_mempool_impl.cpp:45-78).
bool find_oversized(Pool &pool, size_t size, hipStream_t key, FreeBlock *out) {
  const auto usable = [&](const Block &block) { return is_ordered(pool, block, key); };
  return quirk(Quirk::PoolOversizeReuse) && find_block(pool, largest_fit(size), SIZE_MAX, usable, out);
}

// A free block, if need be one that the stream is made to wait for.
hipError_t reuse(Pool &pool, size_t size, hipStream_t stream, Block *out, bool *found) {
  const hipStream_t key = key_of(stream);
  const size_t largest = largest_fit(size);
  FreeBlock at;
  *found = find_block(pool, size, largest, [&](const Block &block) { return usable_now(pool, block, key); }, &at) ||
           find_oversized(pool, size, key, &at);
  if (!*found && pool.internal_waits && find_block(pool, size, largest, [](const Block &) { return true; }, &at)) {
    const hipError_t error = enqueue(stream, std::make_shared<FreeWaitWork>(at->second.frees));
    if (error) return error;
    *found = true;
  }
  if (!*found) return hipSuccess;
  *out = std::move(at->second);
  pool.free.erase(at);
  return hipSuccess;
}

hipError_t grow(Pool &pool, size_t size, Block *out) {
  const size_t limit = pool.props.maxSize;
  if (limit && pool.reserved + size > limit) release(&pool, 0);
  if (limit && pool.reserved + size > limit) return hipErrorOutOfMemory;
  hipError_t error = reserve(pool.device(), size, &out->base);
  if (error == hipErrorOutOfMemory) {
    for (const auto &other : state().pools) release(other.get(), 0);
    error = reserve(pool.device(), size, &out->base);
  }
  // What MLX met on gfx1201 (PR 2300).
  if (error == hipErrorOutOfMemory && quirk(Quirk::PoolOomFault)) crash(Quirk::PoolOomFault, "out of device memory");
  if (error) return error;
  out->size = size;
  pool.reserved += size;
  pool.reserved_high = std::max(pool.reserved_high, pool.reserved);
  return hipSuccess;
}

hipError_t allocate(void **out, size_t size, const std::shared_ptr<Pool> &pool, hipStream_t stream) {
  if (size > SIZE_MAX - kGranule) return hipErrorOutOfMemory;
  const size_t rounded = (size + kGranule - 1) / kGranule * kGranule;
  Block block{};
  bool found = false;
  if (const hipError_t error = reuse(*pool, rounded, stream, &block, &found)) return error;
  if (!found) {
    if (const hipError_t error = grow(*pool, rounded, &block)) return error;
  }
  pool->used += block.size;
  pool->used_high = std::max(pool->used_high, pool->used);
  show(block.base, size, MemoryKind::Pool, pool->device(), 0, pool->handle);
  *out = block.base;
  state().live[block.base] = {pool, std::move(block)};
  return hipSuccess;
}

hipError_t capture_allocation(void **out, size_t size, const hipMemPoolProps &props, Capture *capture,
                              hipStream_t stream) {
  hipMemAllocNodeParams params{};
  params.poolProps = props;
  params.bytesize = size;
  Action action;
  if (const hipError_t error = make_alloc_action(&params, &action)) return error;
  if (const hipError_t error = capture_add(capture, canonical(stream), std::move(action))) return error;
  *out = params.dptr;
  return hipSuccess;
}

hipError_t malloc_async(void **out, size_t size, hipStream_t stream, const hipMemPool_t *handle) {
  if (!out) return hipErrorInvalidValue;
  const std::shared_ptr<Stream> target = find_stream(stream);
  if (!target) return hipErrorInvalidHandle;
  if (is_legacy(stream)) {
    if (const hipError_t error = capture_forbids_legacy()) return error;
  }
  if (const hipError_t error = Scheduler::get().lost(target->device)) return error;
  std::unique_lock<std::mutex> lock(state().mutex);
  const std::shared_ptr<Pool> pool = handle ? find_pool(*handle) : current_pool(target->device);
  if (!pool) return hipErrorInvalidValue;
  *out = nullptr;
  if (size == 0) return hipSuccess;
  if (Capture *capture = target->capture.load(std::memory_order_acquire)) {
    const hipMemPoolProps props = pool->props;
    lock.unlock();
    return capture_allocation(out, size, props, capture, stream);
  }
  return allocate(out, size, pool, stream);
}

// The allocation's block goes to the free list: at once for its own stream, for others when the free is known over.
void take_back(std::map<void *, Live>::iterator at, hipStream_t key, uint64_t tick) {
  Live &live = at->second;
  hide(live.block.base);
  live.block.stream = key;
  live.block.tick = tick;
  live.pool->used -= live.block.size;
  live.pool->free.emplace(live.block.size, std::move(live.block));
  state().live.erase(at);
  state().any_free.store(true, std::memory_order_release);
}

hipError_t capture_free(void *address, Capture *capture, hipStream_t stream) {
  Action action;
  if (const hipError_t error = make_free_action(address, &action)) return error;
  return capture_add(capture, canonical(stream), std::move(action));
}

size_t free_bytes(const Pool &pool) { return pool.reserved - pool.used; }

// The smallest blocks that are at least half of a pool's free memory.
std::vector<FreeBlock> smaller_half(Pool *pool) {
  std::vector<FreeBlock> blocks;
  size_t left = free_bytes(*pool);
  for (auto it = pool->free.begin(); left > free_bytes(*pool) / 2; left -= (it++)->first) blocks.push_back(it);
  return blocks;
}

// What CLR does before it takes a block back into a pool with more free than used memory (hip_mempool_impl.cpp:231-246;
// rocm-systems#11690): give back all that can be, whatever the threshold, and wait when the device is nearly full.
void relieve(void *address) {
  std::unique_lock<std::mutex> lock(state().mutex);
  const auto at = state().live.find(address);
  if (at == state().live.end()) return;
  const std::shared_ptr<Pool> pool = at->second.pool;
  if (free_bytes(*pool) <= pool->used) return;
  if (quirk(Quirk::PoolThresholdIgnored)) release(pool.get(), 0);
  const size_t total = flags().memory_bytes;
  if (!quirk(Quirk::PoolLowMemBlock) || reserved_bytes(pool->device()) <= total - total / 8) return;
  std::vector<Frees> frees;
  for (const FreeBlock at : smaller_half(pool.get())) frees.push_back(at->second.frees);
  // CLR waits with the pool locked; a host function that needs the pool would never return.
  lock.unlock();
  Scheduler::get().block_until([&] {
    return std::all_of(frees.begin(), frees.end(), [](const Frees &each) { return each.have_run(); });
  });
  lock.lock();
  for (const FreeBlock at : smaller_half(pool.get())) {
    if (at->second.frees.have_run()) give_back(pool.get(), at);
  }
}

hipError_t free_async(void *address, hipStream_t stream) {
  // An error before HIP 7.0.
  if (!address) return quirk(Quirk::FreeasyncNullError) ? hipErrorInvalidValue : hipSuccess;
  const std::shared_ptr<Stream> target = find_stream(stream);
  if (!target) return hipErrorInvalidHandle;
  if (Capture *capture = target->capture.load(std::memory_order_acquire)) return capture_free(address, capture, stream);
  if (is_legacy(stream)) {
    if (const hipError_t error = capture_forbids_legacy()) return error;
  }
  if (std::shared_ptr<Work> work = make_graph_free(address)) return enqueue(stream, std::move(work));
  if (quirk(Quirk::PoolThresholdIgnored) || quirk(Quirk::PoolLowMemBlock)) relieve(address);
  Lock lock(state().mutex);
  const auto at = state().live.find(address);
  if (at == state().live.end()) return hipErrorInvalidValue;
  auto reached = std::make_shared<std::atomic<bool>>(false);
  Block &block = at->second.block;
  auto work = std::make_shared<FreeWork>(block.base, block.size, reached);
  if (const hipError_t error = enqueue(stream, std::move(work))) return error;
  const hipStream_t key = key_of(stream);
  block.frees.add(key, std::move(reached));
  take_back(at, key, state().clocks.tick(key));
  return hipSuccess;
}

bool is_on_device(const hipMemLocation &location) {
  return number_of(location.type) == hipMemLocationTypeDevice && is_device(location.id);
}

bool valid(const hipMemPoolProps &props) {
  return props.allocType == hipMemAllocationTypePinned && is_on_device(props.location);
}

hipError_t create(hipMemPool_t *out, const hipMemPoolProps *props) {
  if (!out || !props || !valid(*props)) return hipErrorInvalidValue;
  if (number_of(props->handleTypes) != hipMemHandleTypeNone) return hipErrorNotSupported;
  if (const hipError_t error = capture_forbids_since_7()) return error;
  Lock lock(state().mutex);
  *out = add_pool(*props)->handle;
  return hipSuccess;
}

hipError_t destroy(hipMemPool_t handle) {
  if (const hipError_t error = capture_forbids_since_7()) return error;
  Lock lock(state().mutex);
  const std::shared_ptr<Pool> pool = find_pool(handle);
  if (!pool || pool == default_pool(pool->device())) return hipErrorInvalidValue;
  std::shared_ptr<Pool> &current = state().current[pool->device()];
  if (current == pool) current = nullptr;
  state().handles.remove(handle);
  pool->destroyed = true;
  release(pool.get(), 0);
  forget_empty_pools();
  return hipSuccess;
}

hipError_t set_attribute(Pool &pool, int attribute, const void *value) {
  const int flag = *static_cast<const int *>(value);
  switch (attribute) {
    case hipMemPoolReuseFollowEventDependencies: pool.follow_events = flag; return hipSuccess;
    case hipMemPoolReuseAllowOpportunistic: pool.opportunistic = flag; return hipSuccess;
    case hipMemPoolReuseAllowInternalDependencies: pool.internal_waits = flag; return hipSuccess;
    default: break;
  }
  const uint64_t bytes = *static_cast<const uint64_t *>(value);
  switch (attribute) {
    case hipMemPoolAttrReleaseThreshold: pool.threshold = bytes; return hipSuccess;
    case hipMemPoolAttrReservedMemHigh:
      if (bytes != 0) return hipErrorInvalidValue;
      pool.reserved_high = pool.reserved;
      return hipSuccess;
    case hipMemPoolAttrUsedMemHigh:
      if (bytes != 0) return hipErrorInvalidValue;
      pool.used_high = pool.used;
      return hipSuccess;
    default: return hipErrorInvalidValue;
  }
}

hipError_t get_attribute(const Pool &pool, int attribute, void *value) {
  auto *flag = static_cast<int *>(value);
  auto *bytes = static_cast<uint64_t *>(value);
  switch (attribute) {
    case hipMemPoolReuseFollowEventDependencies: *flag = pool.follow_events; return hipSuccess;
    case hipMemPoolReuseAllowOpportunistic: *flag = pool.opportunistic; return hipSuccess;
    case hipMemPoolReuseAllowInternalDependencies: *flag = pool.internal_waits; return hipSuccess;
    case hipMemPoolAttrReleaseThreshold: *bytes = pool.threshold; return hipSuccess;
    case hipMemPoolAttrReservedMemCurrent: *bytes = pool.reserved; return hipSuccess;
    case hipMemPoolAttrReservedMemHigh: *bytes = pool.reserved_high; return hipSuccess;
    case hipMemPoolAttrUsedMemCurrent: *bytes = pool.used; return hipSuccess;
    case hipMemPoolAttrUsedMemHigh: *bytes = pool.used_high; return hipSuccess;
    default: return hipErrorInvalidValue;
  }
}

bool can_grant(const Pool &pool, const hipMemAccessDesc &desc) {
  const int flags = number_of(desc.flags);
  if (!is_on_device(desc.location)) return false;
  // A device keeps its own memory.
  if (desc.location.id == pool.device()) return flags == hipMemAccessFlagsProtReadWrite;
  return flags == hipMemAccessFlagsProtNone || flags == hipMemAccessFlagsProtRead ||
         flags == hipMemAccessFlagsProtReadWrite;
}

// Calls op(pool) for a live pool.
template <class Op>
hipError_t with_pool(hipMemPool_t handle, Op op) {
  return api([&]() -> hipError_t {
    Lock lock(state().mutex);
    Pool *pool = state().handles.find(handle);
    return pool ? op(*pool) : hipErrorInvalidValue;
  });
}

}  // namespace

bool pool_free_now(void *address) {
  if (const std::shared_ptr<Work> work = make_graph_free(address)) return work->run() == hipSuccess;
  Lock lock(state().mutex);
  const auto at = state().live.find(address);
  if (at == state().live.end()) return false;
  const Block &block = at->second.block;
  if (quirk(Quirk::PoisonOnFree)) poison(block.base, block.size);
  take_back(at, nullptr, 0);
  return true;
}

void pool_release_unused() {
  if (!state().any_free.load(std::memory_order_acquire)) return;
  Lock lock(state().mutex);
  for (const auto &pool : state().pools) release(pool.get(), pool->destroyed ? 0 : pool->threshold);
  forget_empty_pools();
}

void pool_event_recorded(hipEvent_t event, hipStream_t stream) {
  if (!state().any_free.load(std::memory_order_acquire)) return;
  Lock lock(state().mutex);
  state().clocks.recorded(event, key_of(stream));
}

void pool_event_waited(hipStream_t stream, hipEvent_t event) {
  if (!state().any_free.load(std::memory_order_acquire)) return;
  Lock lock(state().mutex);
  state().clocks.waited(key_of(stream), event);
}

void pool_event_destroyed(hipEvent_t event) {
  if (!state().any_free.load(std::memory_order_acquire)) return;
  Lock lock(state().mutex);
  state().clocks.forget(event);
}

void pool_stream_destroyed(hipStream_t stream) {
  if (!state().any_free.load(std::memory_order_acquire)) return;
  Lock lock(state().mutex);
  state().clocks.forget(stream);
}

}  // namespace cpu

using namespace cpu;

hipError_t hipMallocAsync(void **dev_ptr, size_t size, hipStream_t stream) {
  return api([&] { return malloc_async(dev_ptr, size, stream, nullptr); });
}

hipError_t hipMallocFromPoolAsync(void **dev_ptr, size_t size, hipMemPool_t mem_pool, hipStream_t stream) {
  return api([&] { return malloc_async(dev_ptr, size, stream, &mem_pool); });
}

hipError_t hipFreeAsync(void *dev_ptr, hipStream_t stream) {
  return api([&] { return free_async(dev_ptr, stream); });
}

hipError_t hipMemPoolCreate(hipMemPool_t *mem_pool, const hipMemPoolProps *pool_props) {
  return api([&] { return create(mem_pool, pool_props); });
}

hipError_t hipMemPoolDestroy(hipMemPool_t mem_pool) {
  return api([&] { return destroy(mem_pool); });
}

hipError_t hipMemPoolTrimTo(hipMemPool_t mem_pool, size_t min_bytes_to_hold) {
  return with_pool(mem_pool, [&](Pool &pool) {
    release(&pool, min_bytes_to_hold);
    return hipSuccess;
  });
}

hipError_t hipMemPoolSetAttribute(hipMemPool_t mem_pool, hipMemPoolAttr attr, void *value) {
  return with_pool(mem_pool, [&](Pool &pool) {
    return value ? set_attribute(pool, number_of(attr), value) : hipErrorInvalidValue;
  });
}

hipError_t hipMemPoolGetAttribute(hipMemPool_t mem_pool, hipMemPoolAttr attr, void *value) {
  return with_pool(mem_pool, [&](Pool &pool) {
    return value ? get_attribute(pool, number_of(attr), value) : hipErrorInvalidValue;
  });
}

hipError_t hipMemPoolSetAccess(hipMemPool_t mem_pool, const hipMemAccessDesc *desc_list, size_t count) {
  return with_pool(mem_pool, [&](Pool &pool) {
    if (!desc_list || count == 0) return hipErrorInvalidValue;
    const auto refused = [&](const hipMemAccessDesc &desc) { return !can_grant(pool, desc); };
    if (std::any_of(desc_list, desc_list + count, refused)) return hipErrorInvalidValue;
    for (size_t i = 0; i < count; ++i) pool.access[desc_list[i].location.id] = desc_list[i].flags;
    return hipSuccess;
  });
}

hipError_t hipMemPoolGetAccess(hipMemAccessFlags *flags, hipMemPool_t mem_pool, hipMemLocation *location) {
  return with_pool(mem_pool, [&](Pool &pool) {
    if (!flags || !location || !is_on_device(*location)) return hipErrorInvalidValue;
    const auto granted = pool.access.find(location->id);
    if (location->id == pool.device()) *flags = hipMemAccessFlagsProtReadWrite;
    else *flags = granted == pool.access.end() ? hipMemAccessFlagsProtNone : granted->second;
    return hipSuccess;
  });
}

hipError_t hipMemPoolExportToShareableHandle(void *, hipMemPool_t mem_pool, hipMemAllocationHandleType, unsigned int) {
  return with_pool(mem_pool, [](Pool &) { return hipErrorNotSupported; });
}

hipError_t hipMemPoolImportFromShareableHandle(hipMemPool_t *mem_pool, void *, hipMemAllocationHandleType,
                                               unsigned int) {
  return api([&] { return mem_pool ? hipErrorNotSupported : hipErrorInvalidValue; });
}

hipError_t hipMemPoolExportPointer(hipMemPoolPtrExportData *export_data, void *) {
  return api([&] { return export_data ? hipErrorNotSupported : hipErrorInvalidValue; });
}

hipError_t hipMemPoolImportPointer(void **dev_ptr, hipMemPool_t mem_pool, hipMemPoolPtrExportData *) {
  return with_pool(mem_pool, [&](Pool &) { return dev_ptr ? hipErrorNotSupported : hipErrorInvalidValue; });
}

hipError_t hipDeviceGetDefaultMemPool(hipMemPool_t *mem_pool, int device) {
  return api([&]() -> hipError_t {
    if (!mem_pool) return hipErrorInvalidValue;
    if (!is_device(device)) return hipErrorInvalidDevice;
    Lock lock(state().mutex);
    *mem_pool = default_pool(device)->handle;
    return hipSuccess;
  });
}

hipError_t hipDeviceSetMemPool(int device, hipMemPool_t mem_pool) {
  return api([&]() -> hipError_t {
    if (!is_device(device)) return hipErrorInvalidDevice;
    if (const hipError_t error = capture_forbids_since_7()) return error;
    Lock lock(state().mutex);
    const std::shared_ptr<Pool> pool = find_pool(mem_pool);
    if (!pool || pool->device() != device) return hipErrorInvalidValue;
    state().current[device] = pool;
    return hipSuccess;
  });
}

hipError_t hipDeviceGetMemPool(hipMemPool_t *mem_pool, int device) {
  return api([&]() -> hipError_t {
    if (!mem_pool) return hipErrorInvalidValue;
    if (!is_device(device)) return hipErrorInvalidDevice;
    Lock lock(state().mutex);
    *mem_pool = current_pool(device)->handle;
    return hipSuccess;
  });
}
