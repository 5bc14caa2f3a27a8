#include "runtime/pool.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "check/checks.h"
#include "check/poison.h"
#include "check/shadow.h"
#include "flags.h"
#include "handles.h"
#include "quirks/quirks.h"
#include "runtime/device.h"
#include "runtime/memory.h"
#include "runtime/scheduler.h"
#include "runtime/stream.h"
#include "runtime/vector_clock.h"
#include "runtime/work.h"

namespace cpu {
namespace {

using Lock = std::lock_guard<std::mutex>;

constexpr size_t kGranule = 512;  // sizes of blocks are multiples of this

// An allocation that the application holds.
struct Live {
  std::shared_ptr<Pool> pool;
  Block block;
};

struct State {
  std::mutex mutex;
  std::vector<std::shared_ptr<Pool>> pools;  // also destroyed ones that hold memory
  Handles<hipMemPool_t, Pool> handles;
  std::map<int, std::shared_ptr<Pool>> defaults;  // by device
  std::map<int, std::shared_ptr<Pool>> current;   // by device; none: the default one
  std::map<void *, Live> live;                    // by address
  std::atomic<bool> any_free{false};  // false: there is nothing to release
};

State &state() {
  static State *instance = new State;
  return *instance;
}

// Marks the point in a stream at which memory becomes free.
struct FreeWork : Work {
  FreeWork(void *b, size_t s, Flag f) : Work(hipGraphNodeTypeMemFree), base(b), size(s), reached(std::move(f)) {}
  void queued() override {
    if (const Task *task = queued_task()) reached->clock = task->clock;
  }
  hipError_t run() override {
    memory_given_back(reinterpret_cast<uintptr_t>(base), stack);
    // With pool_retag_race another stream may have the block by now (MLX's allocator.cpp:99-105).
    if (quirk(Quirk::PoisonOnFree) || quirk(Quirk::PoolRetagRace)) cpu::poison(base, size);
    reached->has_run.store(true, std::memory_order_release);
    return hipSuccess;
  }
  void drop() override { run(); }
  std::shared_ptr<Work> clone() const override { return std::make_shared<FreeWork>(base, size, reached); }

  void *const base;
  const size_t size;
  const Flag reached;
  const HostStack stack = host_stack();
};

// Marks the point in a stream from which on memory may be used; queued while kernels are checked.
struct TakeWork : Work {
  TakeWork(void *b, size_t s) : Work(hipGraphNodeTypeMemAlloc), base(b), size(s) {}
  hipError_t run() override {
    memory_taken(reinterpret_cast<uintptr_t>(base), size, false, stack);
    return hipSuccess;
  }
  std::shared_ptr<Work> clone() const override { return std::make_shared<TakeWork>(*this); }

  void *const base;
  const size_t size;
  const HostStack stack = host_stack();
};

// Holds a stream back until frees on other streams have run.
struct FreeWaitWork : Work {
  explicit FreeWaitWork(Frees f) : Work(hipGraphNodeTypeWaitEvent), frees(std::move(f)) {}
  void queued() override { frees.order(queued_task()); }
  bool ready() const override { return frees.have_run(); }
  hipError_t run() override { return hipSuccess; }
  std::shared_ptr<Work> clone() const override { return std::make_shared<FreeWaitWork>(frees); }

  const Frees frees;
};

std::shared_ptr<Pool> add_pool(const hipMemPoolProps &props) {
  auto pool = std::make_shared<Pool>();
  pool->props = props;
  pool->handle = state().handles.add(pool.get());
  state().pools.push_back(pool);
  return pool;
}

// Returns the pool that a device comes with. The caller holds the lock, as for the functions below.
std::shared_ptr<Pool> own_pool(int device) {
  std::shared_ptr<Pool> &pool = state().defaults[device];
  if (!pool) {
    hipMemPoolProps props{};
    props.allocType = hipMemAllocationTypePinned;
    props.location = {hipMemLocationTypeDevice, device};
    pool = add_pool(props);
  }
  return pool;
}

std::shared_ptr<Pool> chosen_pool(int device) {
  const std::shared_ptr<Pool> &pool = state().current[device];
  return pool ? pool : own_pool(device);
}

std::shared_ptr<Pool> find_pool(hipMemPool_t handle) {
  Pool *pool = state().handles.find(handle);
  if (!pool) return nullptr;
  return *std::find_if(state().pools.begin(), state().pools.end(), [&](const auto &p) { return p.get() == pool; });
}

using FreeBlock = std::multimap<size_t, Block>::iterator;

// Gives a block back to the device and returns the free block behind it.
FreeBlock give_back(Pool *pool, FreeBlock at) {
  unreserve(pool->device(), at->second.base, at->first);
  pool->reserved -= at->first;
  return pool->free.erase(at);
}

// Gives blocks back, large ones first, while at least `keep` bytes stay reserved.
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

// Returns the largest block that a request of this size may take; larger ones are left to requests that need them.
size_t largest_fit(size_t size) { return size + size / 8 + kGranule; }

// Finds the smallest usable free block of a size within bounds.
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

// Returns whether the order of streams and events puts the block's free before the stream's next operation.
bool is_ordered(const Pool &pool, const Block &block, hipStream_t key) {
  return block.stream == key || (pool.follow_events && clock_is_before(block.stream, block.tick, key));
}

// Returns the same, or whether the free has run. With pool_retag_race nobody asks (MLX's allocator.cpp:99-105).
bool usable_now(const Pool &pool, const Block &block, hipStream_t key) {
  if (is_ordered(pool, block, key) || quirk(Quirk::PoolRetagRace)) return true;
  return pool.opportunistic && block.frees.have_run();
}

// CLR hands a stream a block of any larger size that is safe for it (hip_mempool_impl.cpp:45-78).
bool find_oversized(Pool &pool, size_t size, hipStream_t key, FreeBlock *out) {
  const auto usable = [&](const Block &block) { return is_ordered(pool, block, key); };
  return quirk(Quirk::PoolOversizeReuse) && find_block(pool, largest_fit(size), SIZE_MAX, usable, out);
}

void take(Pool &pool, FreeBlock at, Block *out) {
  *out = std::move(at->second);
  pool.free.erase(at);
}

// Takes a free block that the stream may use at once; false if there is none.
bool reuse(Pool &pool, size_t size, hipStream_t stream, Block *out) {
  const hipStream_t key = stream_key(stream);
  FreeBlock at;
  const auto usable = [&](const Block &block) { return usable_now(pool, block, key); };
  if (!find_block(pool, size, largest_fit(size), usable, &at) && !find_oversized(pool, size, key, &at)) return false;
  take(pool, at, out);
  return true;
}

// Takes a free block whose frees the stream is made to wait for. hipErrorOutOfMemory: there is none.
hipError_t wait_and_reuse(Pool &pool, size_t size, hipStream_t stream, Block *out) {
  FreeBlock at;
  if (!pool.internal_waits || !find_block(pool, size, SIZE_MAX, [](const Block &) { return true; }, &at)) {
    return hipErrorOutOfMemory;
  }
  if (const hipError_t error = enqueue(stream, std::make_shared<FreeWaitWork>(at->second.frees))) return error;
  take(pool, at, out);
  return hipSuccess;
}

hipError_t grow(Pool &pool, size_t size, Block *out) {
  const size_t limit = pool.props.maxSize;
  if (limit && pool.reserved + size > limit) release(&pool, 0);
  if (limit && pool.reserved + size > limit) return hipErrorOutOfMemory;
  const auto reserve_block = pool.is_shareable() ? reserve_shared : reserve;
  hipError_t error = reserve_block(pool.device(), size, &out->base);
  if (error == hipErrorOutOfMemory) {
    for (const auto &other : state().pools) release(other.get(), 0);
    error = reserve_block(pool.device(), size, &out->base);
  }
  // MLX met this on gfx1201 (ml-explore/mlx#2300).
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
  if (!reuse(*pool, rounded, stream, &block)) {
    hipError_t error = grow(*pool, rounded, &block);
    // A stream is made to wait only where there is no more memory.
    if (error == hipErrorOutOfMemory) error = wait_and_reuse(*pool, rounded, stream, &block);
    if (error) return error;
  }
  if (const hipError_t error = is_checking() ? enqueue(stream, std::make_shared<TakeWork>(block.base, size)) : hipSuccess) {
    pool->free.emplace(block.size, std::move(block));
    return error;
  }
  pool->used += block.size;
  pool->used_high = std::max(pool->used_high, pool->used);
  show(block.base, size, MemoryKind::Pool, pool->device(), 0, pool->handle);
  *out = block.base;
  state().live[block.base] = {pool, std::move(block)};
  return hipSuccess;
}

// Puts the allocation's block on the free list. Its own stream may take it at once, others when the free is known to be
// over.
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

size_t free_bytes(const Pool &pool) { return pool.reserved - pool.used; }

// Returns the smallest blocks that together are at least half of a pool's free memory.
std::vector<FreeBlock> smaller_half(Pool *pool) {
  std::vector<FreeBlock> blocks;
  size_t left = free_bytes(*pool);
  for (auto it = pool->free.begin(); left > free_bytes(*pool) / 2; left -= (it++)->first) blocks.push_back(it);
  return blocks;
}

// Does what CLR does before it takes a block back into a pool with more free than used memory
// (hip_mempool_impl.cpp:231-246, rocm-systems#11690): it gives back all that it can, whatever the threshold, and waits
// if the device is nearly full.
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
  // CLR waits with the pool locked. Here it is unlocked, because a host function that needs the pool would never
  // return.
  lock.unlock();
  Scheduler::get().block_until([&] {
    return std::all_of(frees.begin(), frees.end(), [](const Frees &each) { return each.have_run(); });
  });
  lock.lock();
  for (const FreeBlock at : smaller_half(pool.get())) {
    if (at->second.frees.have_run()) give_back(pool.get(), at);
  }
}

}  // namespace

void Frees::add(hipStream_t stream, Flag free) {
  for (auto it = last_.begin(); it != last_.end();) it = it->second->has_run ? last_.erase(it) : std::next(it);
  last_[stream] = std::move(free);
}

bool Frees::have_run() const {
  return std::all_of(last_.begin(), last_.end(), [](const auto &entry) { return entry.second->has_run.load(); });
}

void Frees::order(Task *queued) const {
  for (const auto &[stream, free] : last_) {
    if (queued) join(&queued->clock, free->clock);
  }
}

hipMemPool_t create_pool(const hipMemPoolProps &props) {
  Lock lock(state().mutex);
  return add_pool(props)->handle;
}

hipError_t destroy_pool(hipMemPool_t handle) {
  Lock lock(state().mutex);
  const std::shared_ptr<Pool> pool = find_pool(handle);
  if (!pool || pool == own_pool(pool->device())) return hipErrorInvalidValue;
  std::shared_ptr<Pool> &current = state().current[pool->device()];
  if (current == pool) current = nullptr;
  state().handles.remove(handle);
  pool->destroyed = true;
  release(pool.get(), 0);
  forget_empty_pools();
  return hipSuccess;
}

hipMemPool_t default_pool(int device) {
  Lock lock(state().mutex);
  return own_pool(device)->handle;
}

hipMemPool_t current_pool(int device) {
  Lock lock(state().mutex);
  return chosen_pool(device)->handle;
}

hipError_t set_current_pool(int device, hipMemPool_t handle) {
  Lock lock(state().mutex);
  const std::shared_ptr<Pool> pool = find_pool(handle);
  if (!pool || pool->imported || pool->device() != device) return hipErrorInvalidValue;
  state().current[device] = pool;
  return hipSuccess;
}

hipError_t with_pool(hipMemPool_t handle, const std::function<hipError_t(Pool &)> &call) {
  Lock lock(state().mutex);
  Pool *pool = state().handles.find(handle);
  return pool ? call(*pool) : hipErrorInvalidValue;
}

void pool_trim(Pool *pool, uint64_t keep) { release(pool, keep); }

hipError_t pool_allocate(void **out, size_t size, const hipMemPool_t *handle, int device, hipStream_t stream) {
  Lock lock(state().mutex);
  const std::shared_ptr<Pool> pool = handle ? find_pool(*handle) : chosen_pool(device);
  if (!pool || pool->imported) return hipErrorInvalidValue;
  *out = nullptr;
  return size == 0 ? hipSuccess : allocate(out, size, pool, stream);
}

hipError_t pool_free(void *address, hipStream_t stream) {
  if (quirk(Quirk::PoolThresholdIgnored) || quirk(Quirk::PoolLowMemBlock)) relieve(address);
  Lock lock(state().mutex);
  const auto at = state().live.find(address);
  if (at == state().live.end()) return hipErrorInvalidValue;
  auto reached = std::make_shared<FreeMark>();
  Block &block = at->second.block;
  auto work = std::make_shared<FreeWork>(block.base, block.size, reached);
  if (const hipError_t error = enqueue(stream, std::move(work))) return error;
  const hipStream_t key = stream_key(stream);
  block.frees.add(key, std::move(reached));
  take_back(at, key, clock_tick(key));
  return hipSuccess;
}

bool pool_free_now(void *address) {
  Lock lock(state().mutex);
  const auto at = state().live.find(address);
  if (at == state().live.end()) return false;
  const Block &block = at->second.block;
  memory_given_back(reinterpret_cast<uintptr_t>(block.base));
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

}  // namespace cpu
