/* Fences: how a lane learns that what other lanes did with their free blocks is done. */
#include <stddef.h>

#include "bins.h"
#include "status.h"
#include "stream.h"

int hiprt_capture_mode(int mode) {
  hipStreamCaptureMode swapped = (hipStreamCaptureMode)mode;
  if (!hiprt_hip.hipThreadExchangeStreamCaptureMode || hiprt_hip.hipThreadExchangeStreamCaptureMode(&swapped)) return mode;
  return (int)swapped;
}

static int can_serve(const hiprt_lane *other, const hiprt_lane *lane) {
  return other != lane && (!lane || other->device == lane->device);
}

void hiprt_fence_put(hiprt_lane *lane, uint64_t serial) {
  if (!lane->can_fence || !hiprt_library_is_open() || hiprt_is_capturing(lane->stream)) return;
  int failed = hiprt_hip.hipSetDevice(lane->device) != hipSuccess;
  if (!failed && !lane->fence) failed = hiprt_hip.hipEventCreateWithFlags(&lane->fence, hipEventDisableTiming) != hipSuccess;
  if (failed || hiprt_hip.hipEventRecord(lane->fence, lane->stream) != hipSuccess) {
    lane->can_fence = 0; /* a stream that refuses is gone: its blocks wait for a trim */
    return;
  }
  lane->is_pending = 1;
  lane->fenced = serial;
}

/* Put a fence behind the frees of a lane, unless one is on its way. */
static void fence(hiprt_lane *lane) {
  if (!lane->is_pending && lane->passed < lane->serial) hiprt_fence_put(lane, lane->serial);
}

static void pass(hiprt_lane *lane, uint64_t serial) {
  if (serial > lane->passed) lane->passed = serial;
  if (lane->fenced <= lane->passed) lane->is_pending = 0;
}

static void ask(hiprt_lane *lane) {
  if (lane->is_pending && hiprt_hip.hipEventQuery(lane->fence) == hipSuccess) pass(lane, lane->fenced);
}

void hiprt_fences_ask(hiprt_pool *pool, const hiprt_lane *lane) {
  int mode = hiprt_capture_mode(hipStreamCaptureModeRelaxed);
  for (hiprt_lane *other = pool->lanes; other; other = other->next)
    if (other != lane) ask(other);
  hiprt_capture_mode(mode);
}

static block *find(hiprt_pool *pool, const hiprt_lane *lane, uint64_t size) {
  block *found = 0;
  for (hiprt_lane *other = pool->lanes; other; other = other->next) {
    if (!can_serve(other, lane)) continue;
    ask(other);
    block *b = hiprt_bins_find(other, size, other->passed);
    if (b && (!found || hiprt_bins_precede(b, found))) found = b;
    if (!b && hiprt_bins_find(other, size, HIPRT_ANY)) fence(other);
  }
  return found;
}

/* Wait for a lane's fence without the lock, which the caller holds before and after. */
static int wait_for_fence(hiprt_pool *pool, hiprt_lane *lane) {
  uint64_t serial = lane->fenced;
  pthread_mutex_unlock(&pool->lock);
  int failed = (int)hiprt_hip.hipEventSynchronize(lane->fence);
  pthread_mutex_lock(&pool->lock);
  if (failed) return hiprt_fail(failed, "hipEventSynchronize", 0);
  pass(lane, serial);
  return 0;
}

/* Fence the lanes that have what is wanted, any block if size is 0, and wait for one after the other. */
static int settle(hiprt_pool *pool, const hiprt_lane *lane, uint64_t size, int wait) {
  int status = 0;
  for (hiprt_lane *other = pool->lanes, *next; other && !status; other = next) {
    other->blocks++; /* it stays while this waits */
    if (can_serve(other, lane) && (!size || hiprt_bins_find(other, size, HIPRT_ANY))) {
      fence(other);
      /* A fence that was there already may lie before the last free. */
      for (int round = 0; round < 2 && wait && other->is_pending && !status; round++) {
        status = wait_for_fence(pool, other);
        if (!status) fence(other);
      }
    }
    next = other->next;
    hiprt_pool_leave(pool, other);
  }
  return status;
}

int hiprt_pool_settle(hiprt_pool *pool, const hiprt_lane *lane, int wait) {
  if (!hiprt_library_is_open()) return 0;
  int mode = hiprt_capture_mode(hipStreamCaptureModeRelaxed);
  pthread_mutex_lock(&pool->lock);
  int status = settle(pool, lane, 0, wait);
  pthread_mutex_unlock(&pool->lock);
  hiprt_capture_mode(mode);
  return status;
}

int hiprt_pool_take_over(hiprt_pool *pool, hiprt_lane *lane, uint64_t nbytes, int wait, hiprt_block **out_block) {
  *out_block = 0;
  if (!hiprt_library_is_open() || nbytes > HIPRT_MOST) return 0;
  uint64_t size = hiprt_pool_class(nbytes);
  int mode = hiprt_capture_mode(hipStreamCaptureModeRelaxed);
  pthread_mutex_lock(&pool->lock);
  int status = wait ? settle(pool, lane, size, wait) : 0;
  block *b = status ? 0 : find(pool, lane, size);
  if (b) *out_block = hiprt_pool_use(pool, lane, b, size);
  pthread_mutex_unlock(&pool->lock);
  hiprt_capture_mode(mode);
  return status;
}
