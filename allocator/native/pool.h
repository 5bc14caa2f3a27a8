/* Block pool: memory taken in chunks from a source, cut into blocks, given out again in stream order.
 *
 * The pool keeps books only; chunks are handed to it and taken back by its owner, which knows where they come from. So a
 * chunk goes back exactly where it came from.
 * Free blocks lie with the lane (stream) that used them last, in bins by size; of those that fit (less than twice the
 * request) the one of the earliest chunk goes first, lowest address first. That order, and not the tightest fit, gives a
 * sequence of requests that is repeated the addresses it had the first time: what was added later is never preferred.
 * Another lane may have a block once the lane's fence, an event recorded after the free, has happened.
 * One mutex; nothing waits for the device while holding it. Every HIP call is one that leaves captures alone: none on a
 * stream that captures, and the thread's mode is relaxed around it. */
#pragma once
#include <pthread.h>
#include <stddef.h>

#include "hiprt_core.h"
#include "library.h"

typedef struct hiprt_chunk hiprt_chunk;
typedef struct block block;

struct block {
  hiprt_block shown;    /* first: what the interface points to */
  hiprt_chunk *chunk;
  hiprt_lane *lane;     /* that uses it, or used it last */
  block *before, *next; /* neighbours in the chunk, by address */
  uint64_t serial;      /* of the free, counted by the lane */
  uint32_t place;       /* in its bin's heap */
  uint32_t is_used;
};

struct hiprt_chunk {
  uint64_t number, address, nbytes, used;
  int needs_idle; /* to be given back */
  block *first;
  hiprt_chunk *before, *next;
};

typedef struct {
  block **heap;
  uint32_t size, capacity;
} bin;

struct hiprt_lane {
  uint64_t number;
  hipStream_t stream;
  int device;
  int can_fence; /* the stream is known and open */
  int is_closed;
  uint64_t blocks; /* that name it, and waits for its fence: a closed lane goes with the last */
  hipEvent_t fence;
  int is_pending;
  uint64_t serial, fenced, passed; /* of the last free, of the last free before the fence, of the last one behind it */
  bin *bins;
  uint32_t n_bins;
  hiprt_lane *next;
};

struct hiprt_pool {
  pthread_mutex_t lock;
  uint64_t references; /* the owner's, and one for each block in use: a collector finalises in any order */
  uint64_t allocated, reserved, peak;
  hiprt_lane *lanes;
  hiprt_chunk *chunks, *last_chunk;
  block *spare; /* structures for reuse, linked by next */
};

/* Give a lane a free block, cut to size. The caller holds the lock. */
hiprt_block *hiprt_pool_use(hiprt_pool *pool, hiprt_lane *lane, block *b, uint64_t nbytes);
/* Give up one of a lane's `blocks`. The caller holds the lock. */
void hiprt_pool_leave(hiprt_pool *pool, hiprt_lane *lane);
/* Note behind which free of its lane's blocks the work of the stream so far is; `serial`: that free. */
void hiprt_fence_put(hiprt_lane *lane, uint64_t serial);
/* Ask the fences of all lanes but one. */
void hiprt_fences_ask(hiprt_pool *pool, const hiprt_lane *lane);
