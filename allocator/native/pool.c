#include "pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "bins.h"
#include "books.h"
#include "capture.h"
#include "status.h"

/* A stream that the pool has given memory to. */
typedef struct place {
  uint64_t number; /* of the stream */
  hiprt_lane *lane;
  struct place *next;
} place;

/* Memory from hipMalloc. */
typedef struct piece {
  uint64_t number, nbytes;
  void *address;
  struct piece *next;
} piece;

struct hiprt_pool {
  int device;
  uint64_t limit;
  hiprt_books *books;
  atomic_ullong references; /* those of owners, and one for each block that is out */
  pthread_mutex_t lock;     /* guards the next */
  place *places;
  piece *pieces; /* the newest first */
  uint64_t pieces_taken;
};

int hiprt_pool_create(int device, uint64_t limit, hiprt_pool **out_pool) {
  int count = 0;
  *out_pool = 0;
  if (!hiprt_library_is_open()) return hiprt_fail(HIPRT_E_CLOSED, "hiprt_pool_create", "hiprt_open comes first");
  HIPRT_TRY(hipGetDeviceCount, &count);
  if (device < 0 || device >= count) return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_pool_create", "there is no such device");
  hiprt_pool *pool = calloc(1, sizeof *pool);
  if (!pool || hiprt_books_create(&pool->books)) {
    free(pool);
    return hiprt_fail(HIPRT_E_MEMORY, "hiprt_pool_create", 0);
  }
  pool->device = device;
  pool->limit = limit;
  pool->references = 1;
  pthread_mutex_init(&pool->lock, 0);
  *out_pool = pool;
  return 0;
}

/* Take a piece out of the list. */
static piece *remove_piece(hiprt_pool *pool, uint64_t number) {
  pthread_mutex_lock(&pool->lock);
  piece **at = &pool->pieces;
  while ((*at)->number != number) at = &(*at)->next;
  piece *found = *at;
  *at = found->next;
  pthread_mutex_unlock(&pool->lock);
  return found;
}

/* Give HIP the pieces of which no block is out; hipFree waits for the work that used them. Return the bytes. */
static uint64_t give_back(hiprt_pool *pool) {
  uint64_t numbers[64], given = 0;
  uint32_t count;
  const int mode = hiprt_capture_mode(hipStreamCaptureModeRelaxed);
  hiprt_hip.hipSetDevice(pool->device);
  while ((count = hiprt_books_trim(pool->books, 0, sizeof numbers / sizeof *numbers, numbers))) {
    for (uint32_t i = 0; i < count; i++) {
      piece *old = remove_piece(pool, numbers[i]);
      hiprt_hip.hipFree(old->address);
      given += old->nbytes;
      free(old);
    }
  }
  hiprt_capture_mode(mode);
  return given;
}

static void let_go(hiprt_pool *pool) {
  if (atomic_fetch_sub(&pool->references, 1) > 1) return;
  give_back(pool);
  for (place *each = pool->places, *next; each; each = next) {
    next = each->next;
    free(each);
  }
  hiprt_books_release(pool->books);
  pthread_mutex_destroy(&pool->lock);
  free(pool);
}

void hiprt_pool_retain(hiprt_pool *pool) { atomic_fetch_add(&pool->references, 1); }

void hiprt_pool_release(hiprt_pool *pool) {
  if (pool && !hiprt_is_forked) let_go(pool);
}

/* Return where the pool keeps the lane of a stream: the link that leads to it, or the last. */
static place **find_place(hiprt_pool *pool, const hiprt_stream *stream) {
  place **at = &pool->places;
  while (*at && (*at)->number != stream->number) at = &(*at)->next;
  return at;
}

/* Find the lane of a stream, or make one. */
static int lane_of(hiprt_pool *pool, hiprt_stream *stream, hiprt_lane **out_lane) {
  int status = 0;
  *out_lane = 0;
  pthread_mutex_lock(&pool->lock);
  place **at = find_place(pool, stream);
  if (!*at && !(*at = calloc(1, sizeof **at))) {
    status = hiprt_fail(HIPRT_E_MEMORY, "hiprt_pool_allocate", 0);
  } else if (!(*at)->lane) {
    (*at)->number = stream->number;
    status = hiprt_books_lane(pool->books, stream->number, stream, 1, &(*at)->lane);
  }
  if (!status) *out_lane = (*at)->lane;
  pthread_mutex_unlock(&pool->lock);
  return status;
}

/* Enter memory of HIP's into the books as one block that is out. */
static int add_piece(hiprt_pool *pool, hiprt_lane *lane, void *address, uint64_t nbytes, hiprt_block **out_block) {
  piece *made = malloc(sizeof *made);
  if (!made) return hiprt_fail(HIPRT_E_MEMORY, "hiprt_pool_allocate", 0);
  made->address = address;
  made->nbytes = nbytes;
  pthread_mutex_lock(&pool->lock);
  made->number = pool->pieces_taken++;
  made->next = pool->pieces;
  const int status = hiprt_books_add(pool->books, lane, made->number, (uintptr_t)address, nbytes, 0, out_block);
  if (!status) pool->pieces = made;
  pthread_mutex_unlock(&pool->lock);
  if (status) free(made);
  return status;
}

/* Take memory from HIP and give it out as one block. */
static int extend(hiprt_pool *pool, hiprt_lane *lane, uint64_t nbytes, hiprt_block **out_block) {
  void *address = 0;
  int status = nbytes > HIPRT_MOST ? hiprt_fail(HIPRT_E_LIMIT, "hiprt_pool_allocate", "no pool has so many bytes") : 0;
  const uint64_t size = status ? 0 : hiprt_books_class(nbytes);
  if (!status) status = hiprt_books_reserve(pool->books, size, pool->limit);
  if (status) return status;
  const int mode = hiprt_capture_mode(hipStreamCaptureModeRelaxed);
  status = (int)hiprt_hip.hipMalloc(&address, size);
  if (status) hiprt_fail(status, "hipMalloc", "for a pool");
  else status = add_piece(pool, lane, address, size, out_block);
  if (status && address) hiprt_hip.hipFree(address);
  hiprt_capture_mode(mode);
  if (status) hiprt_books_cancel(pool->books, size);
  return status;
}

/* Find a block where the lane has none that fits: another stream's that is done, new memory, or one that is waited for. */
static int grow(hiprt_pool *pool, hiprt_lane *lane, uint64_t nbytes, hiprt_block **out_block) {
  int status = hiprt_books_take_over(pool->books, lane, nbytes, 0, out_block);
  if (status || *out_block) return status;
  const int failure = extend(pool, lane, nbytes, out_block);
  if (!failure) return 0;
  status = hiprt_books_take_over(pool->books, lane, nbytes, 1, out_block);
  if (status || *out_block) return status;
  return give_back(pool) ? extend(pool, lane, nbytes, out_block) : failure;
}

int hiprt_pool_allocate(hiprt_pool *pool, hiprt_stream *stream, uint64_t nbytes, hiprt_block **out_block) {
  hiprt_lane *lane;
  *out_block = 0;
  int status = hiprt_stream_ready(stream, "hiprt_pool_allocate");
  if (!status && stream->device != pool->device)
    status = hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_pool_allocate", "the stream is of another device than the pool");
  if (!status) status = lane_of(pool, stream, &lane);
  if (status) return status;
  hiprt_pool_retain(pool);
  *out_block = hiprt_books_take(pool->books, lane, nbytes);
  if (!*out_block) status = grow(pool, lane, nbytes, out_block);
  if (status) let_go(pool);
  return status;
}

void hiprt_pool_free(hiprt_pool *pool, hiprt_block *block) {
  if (!block || hiprt_is_forked) return;
  hiprt_books_give(pool->books, block);
  let_go(pool);
}

void hiprt_pool_leave(hiprt_pool *pool, hiprt_stream *stream) {
  if (hiprt_is_forked) return;
  const int mode = hiprt_capture_mode(hipStreamCaptureModeRelaxed);
  pthread_mutex_lock(&pool->lock);
  place **at = find_place(pool, stream), *found = *at;
  if (found) {
    *at = found->next;
    if (found->lane) hiprt_books_close(pool->books, found->lane, 1, 1);
    free(found);
  }
  pthread_mutex_unlock(&pool->lock);
  hiprt_capture_mode(mode);
}

int hiprt_pool_trim(hiprt_pool *pool, uint64_t *out_nbytes) {
  if (out_nbytes) *out_nbytes = 0;
  if (hiprt_is_forked) return hiprt_fail(HIPRT_E_FORKED, "hiprt_pool_trim", 0);
  if (hiprt_captures())
    return hiprt_fail(HIPRT_E_RECORDING, "hiprt_pool_trim", "a stream is being captured, which the wait would end");
  const uint64_t given = give_back(pool);
  if (out_nbytes) *out_nbytes = given;
  return 0;
}

void hiprt_pool_count(hiprt_pool *pool, hiprt_pool_stats *out_stats) {
  *out_stats = (hiprt_pool_stats){0};
  if (!hiprt_is_forked) hiprt_books_measure(pool->books, out_stats);
}
