#include "books.h"

#include <pthread.h>
#include <stdlib.h>

#include "capture.h"
#include "lane.h"
#include "status.h"

struct hiprt_books {
  pthread_mutex_t lock;
  uint64_t references; /* the owner's, and one for each block in use: Python's collector finalises in any order */
  uint64_t allocated, reserved, peak;
  hiprt_lane *lanes;
  hiprt_chunk *chunks, *last_chunk;
  block *spare; /* structures for reuse, linked by next */
  hiprt_books *before, *next; /* in the list of all */
  hiprt_uses *uses; /* of all its memory together; NULL: each buffer has its own */
};

/* All of them. A fork waits until no thread is in any pool's books, so that those of the child are whole. */
static struct {
  pthread_mutex_t lock;
  pthread_once_t once;
  hiprt_books *first;
} every = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_ONCE_INIT, 0};

static void before_fork(void) {
  pthread_mutex_lock(&every.lock);
  for (hiprt_books *books = every.first; books; books = books->next) pthread_mutex_lock(&books->lock);
}

static void after_fork(void) {
  for (hiprt_books *books = every.first; books; books = books->next) pthread_mutex_unlock(&books->lock);
  pthread_mutex_unlock(&every.lock);
}

static void watch_forks(void) { pthread_atfork(before_fork, after_fork, after_fork); }

static void enlist(hiprt_books *books) {
  pthread_once(&every.once, watch_forks);
  pthread_mutex_lock(&every.lock);
  books->next = every.first;
  if (books->next) books->next->before = books;
  every.first = books;
  pthread_mutex_unlock(&every.lock);
}

static void delist(hiprt_books *books) {
  pthread_mutex_lock(&every.lock);
  *(books->before ? &books->before->next : &every.first) = books->next;
  if (books->next) books->next->before = books->before;
  pthread_mutex_unlock(&every.lock);
}

int hiprt_books_create(hiprt_books **out_books) {
  hiprt_books *books = *out_books = calloc(1, sizeof *books);
  if (!books) return hiprt_fail(HIPRT_E_MEMORY, "hiprt_books_create", 0);
  pthread_mutex_init(&books->lock, 0);
  books->references = 1;
  enlist(books);
  return 0;
}

static void free_spare(hiprt_books *books) {
  for (block *b = books->spare, *after; b; b = after) {
    after = b->next;
    free(b);
  }
  books->spare = 0;
}

static void destroy(hiprt_books *books) {
  delist(books);
  for (hiprt_lane *lane = books->lanes, *next; lane; lane = next) {
    next = lane->next;
    hiprt_lane_free(lane);
  }
  for (hiprt_chunk *chunk = books->chunks, *next; chunk; chunk = next) {
    next = chunk->next;
    for (block *b = chunk->first, *after; b; b = after) {
      after = b->next;
      free(b);
    }
    free(chunk);
  }
  free_spare(books);
  hiprt_uses_release(books->uses);
  pthread_mutex_destroy(&books->lock);
  free(books);
}

/* Release the lock, which the caller holds, and give up a reference. */
static void unlock_and_release(hiprt_books *books) {
  int is_last = --books->references == 0;
  pthread_mutex_unlock(&books->lock);
  if (is_last) destroy(books);
}

void hiprt_books_release(hiprt_books *books) {
  pthread_mutex_lock(&books->lock);
  unlock_and_release(books);
}

void hiprt_books_share(hiprt_books *books, hiprt_uses *uses) {
  hiprt_uses_retain(uses);
  books->uses = uses;
}

int hiprt_books_take_back(hiprt_books *books, const hiprt_block *block, hiprt_uses *uses) {
  /* The next launch of the step waits for all that is done with its memory. */
  return uses == books->uses ? 0 : hiprt_order_take_back(((const struct block *)block)->lane->core, uses);
}

int hiprt_books_uses(hiprt_books *books, const hiprt_block *block, hiprt_uses **out_uses) {
  *out_uses = books->uses;
  if (books->uses) {
    hiprt_uses_retain(books->uses);
    return 0;
  }
  hiprt_stream *stream = ((const struct block *)block)->lane->core;
  if (!hiprt_order_is_needed(stream)) return 0;
  const int status = hiprt_uses_create(1, out_uses);
  if (!status) hiprt_order_give(stream, *out_uses);
  return status;
}

int hiprt_books_lane(hiprt_books *books, uint64_t number, hiprt_stream *stream, int can_fence, hiprt_lane **out_lane) {
  hiprt_lane *lane = *out_lane = calloc(1, sizeof *lane);
  if (!lane) return hiprt_fail(HIPRT_E_MEMORY, "hiprt_books_lane", 0);
  lane->number = number;
  hiprt_stream_retain(stream);
  lane->core = stream;
  lane->stream = stream->handle;
  lane->device = stream->device;
  lane->can_fence = can_fence;
  pthread_mutex_lock(&books->lock);
  lane->next = books->lanes;
  books->lanes = lane;
  pthread_mutex_unlock(&books->lock);
  return 0;
}

/* Give up one of a lane's `blocks`. The caller holds the lock. */
static void leave(hiprt_books *books, hiprt_lane *lane) {
  if (--lane->blocks || !lane->is_closed) return;
  hiprt_lane **at = &books->lanes;
  while (*at != lane) at = &(*at)->next;
  *at = lane->next;
  hiprt_lane_free(lane);
}

void hiprt_books_close(hiprt_books *books, hiprt_lane *lane, int can_fence, int is_gone) {
  pthread_mutex_lock(&books->lock);
  lane->blocks++; /* the lane stays until the end of this function */
  lane->can_fence = lane->can_fence && can_fence;
  if (lane->blocks > 1) hiprt_lane_end(lane, is_gone ? UINT64_MAX : lane->serial);
  lane->can_fence = 0;
  lane->is_closed = 1;
  leave(books, lane);
  pthread_mutex_unlock(&books->lock);
}

static block *new_block(hiprt_books *books) {
  block *b = books->spare;
  if (b)
    books->spare = b->next;
  else
    b = malloc(sizeof *b);
  return b;
}

static void drop_block(hiprt_books *books, block *b) {
  b->next = books->spare;
  books->spare = b;
}

/* Cut off what a request does not need of a block that is in no bin; the rest stays free with the same lane. */
static void split(hiprt_books *books, block *b, uint64_t nbytes) {
  if (b->shown.nbytes == nbytes) return;
  block *rest = new_block(books);
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

static void count_use(hiprt_books *books, uint64_t nbytes) {
  books->references++;
  books->allocated += nbytes;
  if (books->allocated > books->peak) books->peak = books->allocated;
}

/* Give a lane a free block, cut to size. The caller holds the lock. */
static hiprt_block *use(hiprt_books *books, hiprt_lane *lane, block *b, uint64_t nbytes) {
  hiprt_lane *from = b->lane;
  hiprt_bins_remove(&from->bins, b);
  split(books, b, nbytes);
  lane->blocks++;
  b->lane = lane;
  leave(books, from);
  b->is_used = 1;
  b->chunk->used += b->shown.nbytes;
  count_use(books, b->shown.nbytes);
  return &b->shown;
}

hiprt_block *hiprt_books_take(hiprt_books *books, hiprt_lane *lane, uint64_t nbytes) {
  if (nbytes > HIPRT_MOST) return 0;
  uint64_t size = hiprt_books_class(nbytes);
  pthread_mutex_lock(&books->lock);
  block *b = hiprt_bins_find(&lane->bins, size, HIPRT_ANY);
  hiprt_block *taken = b ? use(books, lane, b, size) : 0;
  pthread_mutex_unlock(&books->lock);
  return taken;
}

static int can_serve(const hiprt_lane *other, const hiprt_lane *lane) {
  return other != lane && (!lane || other->device == lane->device);
}

/* Return the first block that another lane is known to be done with; NULL, and fences are put, if none is. */
static block *find(hiprt_books *books, const hiprt_lane *lane, uint64_t size) {
  block *found = 0;
  for (hiprt_lane *other = books->lanes; other; other = other->next) {
    if (!can_serve(other, lane)) continue;
    hiprt_lane_ask(other);
    block *b = hiprt_bins_find(&other->bins, size, other->passed);
    if (b && (!found || hiprt_bins_precede(b, found))) found = b;
    if (!b && hiprt_bins_find(&other->bins, size, HIPRT_ANY)) hiprt_lane_fence(other);
  }
  return found;
}

/* Wait for a lane's fence. The caller holds the lock, which is released meanwhile. */
static int wait_for_fence(hiprt_books *books, hiprt_lane *lane) {
  uint64_t serial = lane->fenced;
  pthread_mutex_unlock(&books->lock);
  int status = hiprt_wait_for_event(lane->fence);
  pthread_mutex_lock(&books->lock);
  if (status) return status;
  hiprt_lane_pass(lane, serial);
  return 0;
}

/* Fence the other lanes that have a block of the size, or any block if size is 0, and wait for one after the other. */
static int settle(hiprt_books *books, const hiprt_lane *lane, uint64_t size, int wait) {
  int status = 0;
  for (hiprt_lane *other = books->lanes, *next; other && !status; other = next) {
    other->blocks++; /* the lane stays while this waits */
    if (can_serve(other, lane) && (!size || hiprt_bins_find(&other->bins, size, HIPRT_ANY))) {
      hiprt_lane_fence(other);
      /* A fence that was put earlier may lie before the last free. */
      for (int round = 0; round < 2 && wait && other->is_pending && hiprt_lane_may_ask(other) && !status; round++) {
        status = wait_for_fence(books, other);
        if (!status) hiprt_lane_fence(other);
      }
    }
    next = other->next;
    leave(books, other);
  }
  return status;
}

int hiprt_books_settle(hiprt_books *books, const hiprt_lane *lane, int wait) {
  if (!hiprt_library_is_open()) return 0;
  int mode = hiprt_capture_mode(hipStreamCaptureModeRelaxed);
  pthread_mutex_lock(&books->lock);
  int status = settle(books, lane, 0, wait);
  pthread_mutex_unlock(&books->lock);
  hiprt_capture_mode(mode);
  return status;
}

int hiprt_books_take_over(hiprt_books *books, hiprt_lane *lane, uint64_t nbytes, int wait, hiprt_block **out_block) {
  *out_block = 0;
  if (!hiprt_library_is_open() || nbytes > HIPRT_MOST) return 0;
  uint64_t size = hiprt_books_class(nbytes);
  int mode = hiprt_capture_mode(hipStreamCaptureModeRelaxed);
  pthread_mutex_lock(&books->lock);
  int status = wait ? settle(books, lane, size, wait) : 0;
  block *b = status ? 0 : find(books, lane, size);
  if (b) *out_block = use(books, lane, b, size);
  pthread_mutex_unlock(&books->lock);
  hiprt_capture_mode(mode);
  return status;
}

/* Make a free block swallow the one behind it, if that is free on the same lane; neither is in a bin afterwards. */
static void merge(hiprt_books *books, block *b) {
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
  drop_block(books, behind);
}

void hiprt_books_give(hiprt_books *books, hiprt_block *shown) {
  block *b = (block *)shown, *before;
  pthread_mutex_lock(&books->lock);
  before = b->before;
  books->allocated -= b->shown.nbytes;
  b->chunk->used -= b->shown.nbytes;
  b->is_used = 0;
  b->serial = ++b->lane->serial;
  b->place = HIPRT_NOWHERE;
  merge(books, b);
  if (before && !before->is_used && before->lane == b->lane) {
    merge(books, before);
    b = before;
  }
  hiprt_bins_add(&b->lane->bins, b);
  unlock_and_release(books);
}

int hiprt_books_reserve(hiprt_books *books, uint64_t nbytes, uint64_t limit) {
  pthread_mutex_lock(&books->lock);
  int fits = !limit || (nbytes <= limit && books->reserved <= limit - nbytes);
  if (fits) books->reserved += nbytes;
  pthread_mutex_unlock(&books->lock);
  return fits ? 0 : hiprt_fail(HIPRT_E_LIMIT, "hiprt_books_reserve", 0);
}

void hiprt_books_cancel(hiprt_books *books, uint64_t nbytes) {
  pthread_mutex_lock(&books->lock);
  books->reserved -= nbytes;
  pthread_mutex_unlock(&books->lock);
}

static void append(hiprt_books *books, hiprt_chunk *chunk) {
  chunk->before = books->last_chunk;
  if (chunk->before)
    chunk->before->next = chunk;
  else
    books->chunks = chunk;
  books->last_chunk = chunk;
}

int hiprt_books_add(hiprt_books *books, hiprt_lane *lane, uint64_t number, uint64_t address, uint64_t nbytes,
                    int needs_idle, hiprt_block **out_block) {
  hiprt_chunk *chunk = calloc(1, sizeof *chunk);
  pthread_mutex_lock(&books->lock);
  block *b = chunk ? new_block(books) : 0;
  if (b) {
    *chunk = (hiprt_chunk){number, address, nbytes, nbytes, needs_idle, b, 0, 0};
    lane->blocks++;
    *b = (block){{address, nbytes}, chunk, lane, 0, 0, 0, HIPRT_NOWHERE, 1};
    append(books, chunk);
    count_use(books, nbytes);
  }
  pthread_mutex_unlock(&books->lock);
  *out_block = b ? &b->shown : 0;
  if (b) return 0;
  free(chunk);
  return hiprt_fail(HIPRT_E_MEMORY, "hiprt_books_add", 0);
}

static void remove_chunk(hiprt_books *books, hiprt_chunk *chunk) {
  *(chunk->before ? &chunk->before->next : &books->chunks) = chunk->next;
  *(chunk->next ? &chunk->next->before : &books->last_chunk) = chunk->before;
  for (block *b = chunk->first, *next; b; b = next) {
    next = b->next;
    hiprt_bins_remove(&b->lane->bins, b);
    leave(books, b->lane);
    drop_block(books, b);
  }
  books->reserved -= chunk->nbytes;
  free(chunk);
}

static int is_idle(const hiprt_chunk *chunk) {
  for (const block *b = chunk->first; b; b = b->next)
    if (hiprt_lane_is_retiring(b->lane, b)) return 0;
  return 1;
}

/* Ask the fences of all lanes but one. */
static void ask_fences(hiprt_books *books, const hiprt_lane *lane) {
  int mode = hiprt_capture_mode(hipStreamCaptureModeRelaxed);
  for (hiprt_lane *other = books->lanes; other; other = other->next)
    if (other != lane) hiprt_lane_ask(other);
  hiprt_capture_mode(mode);
}

static uint64_t retiring(const hiprt_books *books, const hiprt_lane *lane) {
  uint64_t sum = 0;
  for (const hiprt_chunk *chunk = books->chunks; chunk; chunk = chunk->next)
    for (const block *b = chunk->first; b; b = b->next)
      if (b->lane != lane && hiprt_lane_is_retiring(b->lane, b)) sum += b->shown.nbytes;
  return sum;
}

uint64_t hiprt_books_retiring(hiprt_books *books, const hiprt_lane *lane) {
  pthread_mutex_lock(&books->lock);
  ask_fences(books, lane);
  uint64_t sum = retiring(books, lane);
  pthread_mutex_unlock(&books->lock);
  return sum;
}

uint32_t hiprt_books_trim(hiprt_books *books, int force, uint32_t capacity, uint64_t *out_numbers) {
  uint32_t count = 0;
  pthread_mutex_lock(&books->lock);
  ask_fences(books, 0);
  for (hiprt_chunk *chunk = books->chunks, *next; chunk && count < capacity; chunk = next) {
    next = chunk->next;
    if (chunk->used || (chunk->needs_idle && !force && !is_idle(chunk))) continue;
    out_numbers[count++] = chunk->number;
    remove_chunk(books, chunk);
  }
  free_spare(books);
  pthread_mutex_unlock(&books->lock);
  return count;
}

uint64_t hiprt_books_unused(hiprt_books *books) {
  pthread_mutex_lock(&books->lock);
  const uint64_t unused = books->reserved - books->allocated;
  pthread_mutex_unlock(&books->lock);
  return unused;
}

uint64_t hiprt_books_peak(hiprt_books *books) {
  pthread_mutex_lock(&books->lock);
  const uint64_t peak = books->peak;
  pthread_mutex_unlock(&books->lock);
  return peak;
}

void hiprt_books_reset_peak(hiprt_books *books) {
  pthread_mutex_lock(&books->lock);
  books->peak = 0;
  pthread_mutex_unlock(&books->lock);
}

void hiprt_books_measure(hiprt_books *books, hiprt_pool_stats *out_stats) {
  pthread_mutex_lock(&books->lock);
  *out_stats = (hiprt_pool_stats){books->allocated, books->reserved, books->peak, 0, retiring(books, 0), 0, 0};
  for (hiprt_chunk *chunk = books->chunks; chunk; chunk = chunk->next) {
    out_stats->chunks++;
    for (block *b = chunk->first; b; b = b->next) {
      out_stats->blocks++;
      if (!b->is_used && b->shown.nbytes > out_stats->largest_free) out_stats->largest_free = b->shown.nbytes;
    }
  }
  pthread_mutex_unlock(&books->lock);
}

uint32_t hiprt_books_list(hiprt_books *books, uint32_t capacity, hiprt_books_entry *out_entries) {
  uint32_t count = 0;
  pthread_mutex_lock(&books->lock);
  for (hiprt_chunk *chunk = books->chunks; chunk; chunk = chunk->next)
    for (block *b = chunk->first; b; b = b->next, count++)
      if (count < capacity)
        out_entries[count] = (hiprt_books_entry){b->shown.address, b->shown.nbytes, chunk->number, b->lane->number,
                                                b->is_used};
  pthread_mutex_unlock(&books->lock);
  return count;
}
