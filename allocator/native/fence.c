/* Fences: how a lane learns that what other lanes did with their free blocks is done. */
#include <stddef.h>

#include "bins.h"
#include "status.h"

static int can_serve(const hiprt_lane *other, const hiprt_lane *lane) {
  return other != lane && other->device == lane->device;
}

/* Put a fence behind the frees of a lane. A stream that refuses is gone: its blocks wait for a trim. */
static void fence(hiprt_lane *lane) {
  if (lane->is_pending || !lane->can_fence || lane->passed == lane->serial) return;
  int failed = hiprt_hip.hipSetDevice(lane->device) != hipSuccess;
  if (!failed && !lane->fence) failed = hiprt_hip.hipEventCreateWithFlags(&lane->fence, hipEventDisableTiming) != hipSuccess;
  if (failed || hiprt_hip.hipEventRecord(lane->fence, lane->stream) != hipSuccess) {
    lane->can_fence = 0;
    return;
  }
  lane->is_pending = 1;
  lane->fenced = lane->serial;
}

static void pass(hiprt_lane *lane, uint64_t serial) {
  if (serial > lane->passed) lane->passed = serial;
  if (lane->fenced <= lane->passed) lane->is_pending = 0;
}

static block *find(hiprt_pool *pool, const hiprt_lane *lane, uint64_t size) {
  block *found = 0;
  for (hiprt_lane *other = pool->lanes; other; other = other->next) {
    if (!can_serve(other, lane)) continue;
    if (other->is_pending && hiprt_hip.hipEventQuery(other->fence) == hipSuccess) pass(other, other->fenced);
    block *b = hiprt_bins_find(other, size, other->passed);
    if (b && (!found || hiprt_bins_precede(b, found))) found = b;
    if (!b && hiprt_bins_find(other, size, HIPRT_ANY)) fence(other);
  }
  return found;
}

/* Wait for the fences of one lane after the other, without the lock: lanes and their fences live as long as the pool. */
static int wait_for_fences(hiprt_pool *pool, const hiprt_lane *lane, uint64_t size) {
  pthread_mutex_lock(&pool->lock);
  hiprt_lane *other = pool->lanes;
  pthread_mutex_unlock(&pool->lock);
  for (; other; other = other->next) {
    pthread_mutex_lock(&pool->lock);
    if (can_serve(other, lane) && hiprt_bins_find(other, size, HIPRT_ANY)) fence(other);
    int is_pending = can_serve(other, lane) && other->is_pending;
    uint64_t serial = other->fenced;
    pthread_mutex_unlock(&pool->lock);
    if (!is_pending) continue;
    HIPRT_TRY(hipEventSynchronize, other->fence);
    pthread_mutex_lock(&pool->lock);
    pass(other, serial);
    pthread_mutex_unlock(&pool->lock);
  }
  return 0;
}

int hiprt_pool_take_over(hiprt_pool *pool, hiprt_lane *lane, uint64_t nbytes, int wait, hiprt_block **out_block) {
  *out_block = 0;
  if (!hiprt_library_is_open() || nbytes > HIPRT_MOST) return 0;
  uint64_t size = hiprt_pool_class(nbytes);
  for (int round = 0; round < (wait ? 2 : 1); round++) {
    int status = wait ? wait_for_fences(pool, lane, size) : 0;
    if (status) return status;
    pthread_mutex_lock(&pool->lock);
    block *b = find(pool, lane, size);
    if (b) *out_block = hiprt_pool_use(pool, lane, b, size);
    pthread_mutex_unlock(&pool->lock);
    if (b) break;
  }
  return 0;
}
