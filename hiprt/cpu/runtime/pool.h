// Stream-ordered memory pools: what hipMallocAsync and hipFreeAsync do outside a capture.
//
// A freed block is handed out again at once on the stream that freed it. Another stream gets it when the free is known
// to come first: it has run (opportunistic reuse), or the stream waited for an event that was recorded after it
// (vector_clock.h). Where there is no more memory, the stream is made to wait.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "check/task_order.h"
#include "hip/hip_runtime_api.h"
#include "runtime/shared_memory.h"

namespace cpu {

// A free that is queued.
struct FreeMark {
  std::atomic<bool> has_run{false};
  TaskClock clock;  // what comes before it, while kernels are checked
};
using Flag = std::shared_ptr<FreeMark>;

// The frees of a block that the next user of its memory has to wait for. Of several on one stream the last is enough.
class Frees {
 public:
  void add(hipStream_t stream, Flag free);
  bool have_run() const;
  // What comes before the frees comes before the work that is being queued.
  void order(Task *queued) const;

 private:
  std::map<hipStream_t, Flag> last_;
};

// A piece of a pool's memory, which is handed out as a whole.
struct Block {
  void *base;
  size_t size;
  // Set while the block is free:
  hipStream_t stream = nullptr;  // where it was freed
  uint64_t tick = 0;             // the number of that free (clock_tick)
  Frees frees;  // its latest free, and those that had not run when the block was handed out again
};

// A pool. with_pool() guards it.
struct Pool {
  hipMemPool_t handle = nullptr;
  hipMemPoolProps props{};
  bool destroyed = false;
  // The attributes hipMemPoolReuseFollowEventDependencies, hipMemPoolReuseAllowOpportunistic,
  // hipMemPoolReuseAllowInternalDependencies and hipMemPoolAttrReleaseThreshold.
  int follow_events = 1;
  int opportunistic = 1;
  int internal_waits = 1;
  uint64_t threshold = 0;
  uint64_t used = 0, used_high = 0;
  uint64_t reserved = 0, reserved_high = 0;
  std::multimap<size_t, Block> free;           // by size
  std::map<int, hipMemAccessFlags> access;     // of other devices, by device
  // The file that stands for the pool in other processes, once it was exported or if it was imported.
  std::shared_ptr<MemoryFile> file;
  bool imported = false;  // another process's: it gives no memory, but shows what that process names

  int device() const { return props.location.id; }
  bool is_shareable() const { return !imported && props.handleTypes == hipMemHandleTypePosixFileDescriptor; }
};

hipMemPool_t create_pool(const hipMemPoolProps &props);
// Ends the handle; the pool's memory is given back as its allocations are freed. hipErrorInvalidValue: the handle is
// not live, or the pool is a default one.
hipError_t destroy_pool(hipMemPool_t handle);
// Return the pool that the device came with, and the one that hipMallocAsync takes memory from.
hipMemPool_t default_pool(int device);
hipMemPool_t current_pool(int device);
hipError_t set_current_pool(int device, hipMemPool_t handle);
// Calls with the live pool behind a handle, which no other thread uses meanwhile. hipErrorInvalidValue: there is none.
hipError_t with_pool(hipMemPool_t handle, const std::function<hipError_t(Pool &)> &call);
// Gives free memory back, within with_pool(), while at least `keep` bytes stay reserved.
void pool_trim(Pool *pool, uint64_t keep);

// Allocates in stream order; `handle` is null for the current pool of the stream's device. For a size of 0 *out becomes
// null. hipErrorInvalidValue: the pool is not live.
hipError_t pool_allocate(void **out, size_t size, const hipMemPool_t *handle, int device, hipStream_t stream);
// Frees an allocation in stream order. hipErrorInvalidValue: the address is not a live pool allocation.
hipError_t pool_free(void *address, hipStream_t stream);
// Frees an allocation at once, as hipFree does; the caller vouches that nothing uses it any more. False: the address is
// not a live pool allocation.
bool pool_free_now(void *address);

// Gives memory above the pools' release thresholds back; called after every synchronisation with a stream, event or
// device.
void pool_release_unused();

}  // namespace cpu
