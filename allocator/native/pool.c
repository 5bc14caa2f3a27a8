#include "pool.h"

#include <pthread.h>
#include <stdlib.h>

#include "capture.h"
#include "lane.h"
#include "status.h"

struct hiprt_pool {
  pthread_mutex_t lock;
  uint64_t references; /* the owner's, and one for each block in use: Python's collector finalises in any order */
  uint64_t allocated, reserved, peak;
  hiprt_lane *lanes;
  hiprt_chunk *chunks, *last_chunk;
  block *spare; /* structures for reuse, linked by next */
  hiprt_pool *before, *next; /* in the list of all pools */
  hiprt_uses *uses; /* of all its memory together; NULL: each buffer has its own */
};

/* All pools. A fork waits until no thread is in any pool's books, so that those of the child are whole. */
static struct {
  pthread_mutex_t lock;
  pthread_once_t once;
  hiprt_pool *first;
} pools = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_ONCE_INIT, 0};

static void before_fork(void) {
  pthread_mutex_lock(&pools.lock);
  for (hiprt_pool *pool = pools.first; pool; pool = pool->next) pthread_mutex_lock(&pool->lock);
}

static void after_fork(void) {
  for (hiprt_pool *pool = pools.first; pool; pool = pool->next) pthread_mutex_unlock(&pool->lock);
  pthread_mutex_unlock(&pools.lock);
}

static void watch_forks(void) { pthread_atfork(before_fork, after_fork, after_fork); }

static void enlist(hiprt_pool *pool) {
  pthread_once(&pools.once, watch_forks);
  pthread_mutex_lock(&pools.lock);
  pool->next = pools.first;
  if (pool->next) pool->next->before = pool;
  pools.first = pool;
  pthread_mutex_unlock(&pools.lock);
}

static void delist(hiprt_pool *pool) {
  pthread_mutex_lock(&pools.lock);
  *(pool->before ? &pool->before->next : &pools.first) = pool->next;
  if (pool->next) pool->next->before = pool->before;
  pthread_mutex_unlock(&pools.lock);
}

int hiprt_pool_create(hiprt_pool **out_pool) {
  hiprt_pool *pool = *out_pool = calloc(1, sizeof *pool);
  if (!pool) return hiprt_fail(HIPRT_E_MEMORY, "hiprt_pool_create", 0);
  pthread_mutex_init(&pool->lock, 0);
  pool->references = 1;
  enlist(pool);
  return 0;
}

static void free_spare(hiprt_pool *pool) {
  for (block *b = pool->spare, *after; b; b = after) {
    after = b->next;
    free(b);
  }
  pool->spare = 0;
}

static void destroy(hiprt_pool *pool) {
  delist(pool);
  for (hiprt_lane *lane = pool->lanes, *next; lane; lane = next) {
    next = lane->next;
    hiprt_lane_free(lane);
  }
  for (hiprt_chunk *chunk = pool->chunks, *next; chunk; chunk = next) {
    next = chunk->next;
    for (block *b = chunk->first, *after; b; b = after) {
      after = b->next;
      free(b);
    }
    free(chunk);
  }
  free_spare(pool);
  hiprt_uses_release(pool->uses);
  pthread_mutex_destroy(&pool->lock);
  free(pool);
}

/* Release the lock, which the caller holds, and give up a reference. */
static void unlock_and_release(hiprt_pool *pool) {
  int is_last = --pool->references == 0;
  pthread_mutex_unlock(&pool->lock);
  if (is_last) destroy(pool);
}

void hiprt_pool_release(hiprt_pool *pool) {
  pthread_mutex_lock(&pool->lock);
  unlock_and_release(pool);
}

void hiprt_pool_share(hiprt_pool *pool, hiprt_uses *uses) {
  hiprt_uses_retain(uses);
  pool->uses = uses;
}

int hiprt_pool_take_back(hiprt_pool *pool, const hiprt_block *block, hiprt_uses *uses) {
  /* The next launch of the step waits for all that is done with its memory. */
  return uses == pool->uses ? 0 : hiprt_order_take_back(((const struct block *)block)->lane->core, uses);
}

int hiprt_pool_uses(hiprt_pool *pool, const hiprt_block *block, hiprt_uses **out_uses) {
  *out_uses = pool->uses;
  if (pool->uses) {
    hiprt_uses_retain(pool->uses);
    return 0;
  }
  hiprt_stream *stream = ((const struct block *)block)->lane->core;
  if (!hiprt_order_is_needed(stream)) return 0;
  const int status = hiprt_uses_create(1, out_uses);
  if (!status) hiprt_order_give(stream, *out_uses);
  return status;
}

int hiprt_pool_lane(hiprt_pool *pool, uint64_t number, hiprt_stream *stream, int can_fence, hiprt_lane **out_lane) {
  hiprt_lane *lane = *out_lane = calloc(1, sizeof *lane);
  if (!lane) return hiprt_fail(HIPRT_E_MEMORY, "hiprt_pool_lane", 0);
  lane->number = number;
  hiprt_stream_retain(stream);
  lane->core = stream;
  lane->stream = stream->handle;
  lane->device = stream->device;
  lane->can_fence = can_fence;
  pthread_mutex_lock(&pool->lock);
  lane->next = pool->lanes;
  pool->lanes = lane;
  pthread_mutex_unlock(&pool->lock);
  return 0;
}

/* Give up one of a lane's `blocks`. The caller holds the lock. */
static void leave(hiprt_pool *pool, hiprt_lane *lane) {
  if (--lane->blocks || !lane->is_closed) return;
  hiprt_lane **at = &pool->lanes;
  while (*at != lane) at = &(*at)->next;
  *at = lane->next;
  hiprt_lane_free(lane);
}

void hiprt_pool_close(hiprt_pool *pool, hiprt_lane *lane, int can_fence, int is_gone) {
  pthread_mutex_lock(&pool->lock);
  lane->blocks++; /* the lane stays until the end of this function */
  lane->can_fence = lane->can_fence && can_fence;
  if (lane->blocks > 1) hiprt_lane_fence_behind(lane, is_gone ? UINT64_MAX : lane->serial);
  lane->can_fence = 0;
  lane->is_closed = 1;
  leave(pool, lane);
  pthread_mutex_unlock(&pool->lock);
}

static block *new_block(hiprt_pool *pool) {
  block *b = pool->spare;
  if (b)
    pool->spare = b->next;
  else
    b = malloc(sizeof *b);
  return b;
}

static void drop_block(hiprt_pool *pool, block *b) {
  b->next = pool->spare;
  pool->spare = b;
}

/* Cut off what a request does not need of a block that is in no bin; the rest stays free with the same lane. */
static void split(hiprt_pool *pool, block *b, uint64_t nbytes) {
  if (b->shown.nbytes == nbytes) return;
  block *rest = new_block(pool);
  if (!rest) return; /* without memory for the rest's structure the request gets it all */
  *rest = *b;
  rest->shown.address += nbytes;
  rest->shown.nbytes -= nbytes;
  rest->before = b;
  if (b->next) b->next->before = rest;
  b->next = rest;
  b->shown.nbytes = nbytes;
  rest->lane->blocks++;
  hiprt_bins_add(&rest->lane->bins, rest);
}

static void count_use(hiprt_pool *pool, uint64_t nbytes) {
  pool->references++;
  pool->allocated += nbytes;
  if (pool->allocated > pool->peak) pool->peak = pool->allocated;
}

/* Give a lane a free block, cut to size. The caller holds the lock. */
static hiprt_block *use(hiprt_pool *pool, hiprt_lane *lane, block *b, uint64_t nbytes) {
  hiprt_lane *from = b->lane;
  hiprt_bins_remove(&from->bins, b);
  split(pool, b, nbytes);
  lane->blocks++;
  b->lane = lane;
  leave(pool, from);
  b->is_used = 1;
  b->chunk->used += b->shown.nbytes;
  count_use(pool, b->shown.nbytes);
  return &b->shown;
}

hiprt_block *hiprt_pool_take(hiprt_pool *pool, hiprt_lane *lane, uint64_t nbytes) {
  if (nbytes > HIPRT_MOST) return 0;
  uint64_t size = hiprt_pool_class(nbytes);
  pthread_mutex_lock(&pool->lock);
  block *b = hiprt_bins_find(&lane->bins, size, HIPRT_ANY);
  hiprt_block *taken = b ? use(pool, lane, b, size) : 0;
  pthread_mutex_unlock(&pool->lock);
  return taken;
}

static int can_serve(const hiprt_lane *other, const hiprt_lane *lane) {
  return other != lane && (!lane || other->device == lane->device);
}

/* Return the first block that another lane is known to be done with; NULL, and fences are put, if none is. */
static block *find(hiprt_pool *pool, const hiprt_lane *lane, uint64_t size) {
  block *found = 0;
  for (hiprt_lane *other = pool->lanes; other; other = other->next) {
    if (!can_serve(other, lane)) continue;
    hiprt_lane_ask(other);
    block *b = hiprt_bins_find(&other->bins, size, other->passed);
    if (b && (!found || hiprt_bins_precede(b, found))) found = b;
    if (!b && hiprt_bins_find(&other->bins, size, HIPRT_ANY)) hiprt_lane_fence(other);
  }
  return found;
}

/* Wait for a lane's fence. The caller holds the lock, which is released meanwhile. */
static int wait_for_fence(hiprt_pool *pool, hiprt_lane *lane) {
  uint64_t serial = lane->fenced;
  pthread_mutex_unlock(&pool->lock);
  int status = hiprt_wait_for_event(lane->fence);
  pthread_mutex_lock(&pool->lock);
  if (status) return status;
  hiprt_lane_pass(lane, serial);
  return 0;
}

/* Fence the other lanes that have a block of the size, or any block if size is 0, and wait for one after the other. */
static int settle(hiprt_pool *pool, const hiprt_lane *lane, uint64_t size, int wait) {
  int status = 0;
  for (hiprt_lane *other = pool->lanes, *next; other && !status; other = next) {
    other->blocks++; /* the lane stays while this waits */
    if (can_serve(other, lane) && (!size || hiprt_bins_find(&other->bins, size, HIPRT_ANY))) {
      hiprt_lane_fence(other);
      /* A fence that was put earlier may lie before the last free. */
      for (int round = 0; round < 2 && wait && other->is_pending && !status; round++) {
        status = wait_for_fence(pool, other);
        if (!status) hiprt_lane_fence(other);
      }
    }
    next = other->next;
    leave(pool, other);
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
  if (b) *out_block = use(pool, lane, b, size);
  pthread_mutex_unlock(&pool->lock);
  hiprt_capture_mode(mode);
  return status;
}

/* Make a free block swallow the one behind it, if that is free on the same lane; neither is in a bin afterwards. */
static void merge(hiprt_pool *pool, block *b) {
  block *behind = b ? b->next : 0;
  if (!behind || b->is_used || behind->is_used || behind->lane != b->lane) return;
  hiprt_bins_remove(&b->lane->bins, b);
  hiprt_bins_remove(&b->lane->bins, behind);
  b->place = HIPRT_NOWHERE;
  b->shown.nbytes += behind->shown.nbytes;
  b->next = behind->next;
  if (b->next) b->next->before = b;
  if (behind->serial > b->serial) b->serial = behind->serial;
  b->lane->blocks--; /* b still names it */
  drop_block(pool, behind);
}

void hiprt_pool_give(hiprt_pool *pool, hiprt_block *shown) {
  block *b = (block *)shown, *before;
  pthread_mutex_lock(&pool->lock);
  before = b->before;
  pool->allocated -= b->shown.nbytes;
  b->chunk->used -= b->shown.nbytes;
  b->is_used = 0;
  b->serial = ++b->lane->serial;
  b->place = HIPRT_NOWHERE;
  merge(pool, b);
  if (before && !before->is_used && before->lane == b->lane) {
    merge(pool, before);
    b = before;
  }
  hiprt_bins_add(&b->lane->bins, b);
  unlock_and_release(pool);
}

int hiprt_pool_reserve(hiprt_pool *pool, uint64_t nbytes, uint64_t limit) {
  pthread_mutex_lock(&pool->lock);
  int fits = !limit || (nbytes <= limit && pool->reserved <= limit - nbytes);
  if (fits) pool->reserved += nbytes;
  pthread_mutex_unlock(&pool->lock);
  return fits ? 0 : hiprt_fail(HIPRT_E_LIMIT, "hiprt_pool_reserve", 0);
}

void hiprt_pool_cancel(hiprt_pool *pool, uint64_t nbytes) {
  pthread_mutex_lock(&pool->lock);
  pool->reserved -= nbytes;
  pthread_mutex_unlock(&pool->lock);
}

static void append(hiprt_pool *pool, hiprt_chunk *chunk) {
  chunk->before = pool->last_chunk;
  if (chunk->before)
    chunk->before->next = chunk;
  else
    pool->chunks = chunk;
  pool->last_chunk = chunk;
}

int hiprt_pool_add(hiprt_pool *pool, hiprt_lane *lane, uint64_t number, uint64_t address, uint64_t nbytes,
                   int needs_idle, hiprt_block **out_block) {
  hiprt_chunk *chunk = calloc(1, sizeof *chunk);
  pthread_mutex_lock(&pool->lock);
  block *b = chunk ? new_block(pool) : 0;
  if (b) {
    *chunk = (hiprt_chunk){number, address, nbytes, nbytes, needs_idle, b, 0, 0};
    lane->blocks++;
    *b = (block){{address, nbytes}, chunk, lane, 0, 0, 0, HIPRT_NOWHERE, 1};
    append(pool, chunk);
    count_use(pool, nbytes);
  }
  pthread_mutex_unlock(&pool->lock);
  *out_block = b ? &b->shown : 0;
  if (b) return 0;
  free(chunk);
  return hiprt_fail(HIPRT_E_MEMORY, "hiprt_pool_add", 0);
}

static void remove_chunk(hiprt_pool *pool, hiprt_chunk *chunk) {
  *(chunk->before ? &chunk->before->next : &pool->chunks) = chunk->next;
  *(chunk->next ? &chunk->next->before : &pool->last_chunk) = chunk->before;
  for (block *b = chunk->first, *next; b; b = next) {
    next = b->next;
    hiprt_bins_remove(&b->lane->bins, b);
    leave(pool, b->lane);
    drop_block(pool, b);
  }
  pool->reserved -= chunk->nbytes;
  free(chunk);
}

static int is_idle(const hiprt_chunk *chunk) {
  for (const block *b = chunk->first; b; b = b->next)
    if (hiprt_lane_is_retiring(b->lane, b)) return 0;
  return 1;
}

/* Ask the fences of all lanes but one. */
static void ask_fences(hiprt_pool *pool, const hiprt_lane *lane) {
  int mode = hiprt_capture_mode(hipStreamCaptureModeRelaxed);
  for (hiprt_lane *other = pool->lanes; other; other = other->next)
    if (other != lane) hiprt_lane_ask(other);
  hiprt_capture_mode(mode);
}

static uint64_t retiring(const hiprt_pool *pool, const hiprt_lane *lane) {
  uint64_t sum = 0;
  for (const hiprt_chunk *chunk = pool->chunks; chunk; chunk = chunk->next)
    for (const block *b = chunk->first; b; b = b->next)
      if (b->lane != lane && hiprt_lane_is_retiring(b->lane, b)) sum += b->shown.nbytes;
  return sum;
}

uint64_t hiprt_pool_retiring(hiprt_pool *pool, const hiprt_lane *lane) {
  pthread_mutex_lock(&pool->lock);
  ask_fences(pool, lane);
  uint64_t sum = retiring(pool, lane);
  pthread_mutex_unlock(&pool->lock);
  return sum;
}

uint32_t hiprt_pool_trim(hiprt_pool *pool, int force, uint32_t capacity, uint64_t *out_numbers) {
  uint32_t count = 0;
  pthread_mutex_lock(&pool->lock);
  ask_fences(pool, 0);
  for (hiprt_chunk *chunk = pool->chunks, *next; chunk && count < capacity; chunk = next) {
    next = chunk->next;
    if (chunk->used || (chunk->needs_idle && !force && !is_idle(chunk))) continue;
    out_numbers[count++] = chunk->number;
    remove_chunk(pool, chunk);
  }
  free_spare(pool);
  pthread_mutex_unlock(&pool->lock);
  return count;
}

uint64_t hiprt_pool_unused(hiprt_pool *pool) {
  pthread_mutex_lock(&pool->lock);
  const uint64_t unused = pool->reserved - pool->allocated;
  pthread_mutex_unlock(&pool->lock);
  return unused;
}

uint64_t hiprt_pool_peak(hiprt_pool *pool) {
  pthread_mutex_lock(&pool->lock);
  const uint64_t peak = pool->peak;
  pthread_mutex_unlock(&pool->lock);
  return peak;
}

void hiprt_pool_reset_peak(hiprt_pool *pool) {
  pthread_mutex_lock(&pool->lock);
  pool->peak = 0;
  pthread_mutex_unlock(&pool->lock);
}

void hiprt_pool_measure(hiprt_pool *pool, hiprt_pool_sizes *out_sizes) {
  pthread_mutex_lock(&pool->lock);
  *out_sizes = (hiprt_pool_sizes){pool->allocated, pool->reserved, pool->peak, 0, retiring(pool, 0), 0, 0};
  for (hiprt_chunk *chunk = pool->chunks; chunk; chunk = chunk->next) {
    out_sizes->chunks++;
    for (block *b = chunk->first; b; b = b->next) {
      out_sizes->blocks++;
      if (!b->is_used && b->shown.nbytes > out_sizes->largest_free) out_sizes->largest_free = b->shown.nbytes;
    }
  }
  pthread_mutex_unlock(&pool->lock);
}

uint32_t hiprt_pool_list(hiprt_pool *pool, uint32_t capacity, hiprt_pool_entry *out_entries) {
  uint32_t count = 0;
  pthread_mutex_lock(&pool->lock);
  for (hiprt_chunk *chunk = pool->chunks; chunk; chunk = chunk->next)
    for (block *b = chunk->first; b; b = b->next, count++)
      if (count < capacity)
        out_entries[count] = (hiprt_pool_entry){b->shown.address, b->shown.nbytes, chunk->number, b->lane->number,
                                                b->is_used};
  pthread_mutex_unlock(&pool->lock);
  return count;
}
