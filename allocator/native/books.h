/* Books: which memory of a pool is whose. It is taken in chunks from somewhere else, cut into blocks, and given out again
 * in stream order.
 *
 * The pool hands the books chunks and takes them back, and knows where they come from, so that a chunk goes back exactly
 * where it came from.
 * Free blocks lie with the lane that used them last, in bins by size. Of those that fit (less than twice the request)
 * the one of the earliest chunk goes first, lowest address first. That order, and not the tightest fit, gives a
 * sequence of requests that is repeated the addresses it had the first time: what was added later is never preferred.
 * Another lane may have a block once a fence behind its free has happened.
 * There is one mutex, and nothing waits for the device while holding it; nothing ever calls back. No HIP call disturbs
 * a capture: none is made on a stream that captures, and the thread's capture mode is relaxed around them (G10). */
#pragma once
#include <stdint.h>

#include "block.h"
#include "order.h"

/* cffi begin */
typedef struct hiprt_books hiprt_books;
typedef struct {
  uint64_t address, nbytes;
  uint64_t chunk, lane; /* their numbers */
  uint32_t is_used;
} hiprt_books_entry;

int hiprt_books_create(hiprt_books **out_books);
/* Let the books go: they go with the last block that is given back. */
void hiprt_books_release(hiprt_books *books);
/* Make all memory one piece, for the order with other streams: it is one step's. */
void hiprt_books_share(hiprt_books *books, hiprt_uses *uses);
/* Make a lane, which belongs to the books. number: no other lane of the process has it. can_fence: the stream's
 * handle is known, and stays valid until hiprt_books_close. */
int hiprt_books_lane(hiprt_books *books, uint64_t number, hiprt_stream *stream, int can_fence, hiprt_lane **out_lane);
/* Forget a lane's stream; the lane is invalid afterwards. can_fence: the stream is still open, and its work so far is
 * fenced now; else its blocks wait for a forced trim. is_gone: nobody launches on it any more. */
void hiprt_books_close(hiprt_books *books, hiprt_lane *lane, int can_fence, int is_gone);
/* Return a block of the lane's own, for work behind all that is on the stream by now; NULL if none fits. */
hiprt_block *hiprt_books_take(hiprt_books *books, hiprt_lane *lane, uint64_t nbytes);
/* Take a block from another lane of the device, if what that lane did with it is known to be done; *out_block is NULL
 * if none is. Without wait, fences are put behind such blocks, so that a later call knows; with wait, this call
 * waits. */
int hiprt_books_take_over(hiprt_books *books, hiprt_lane *lane, uint64_t nbytes, int wait, hiprt_block **out_block);
/* Put fences behind all that is free, and with wait, wait for them; only of other lanes than `lane`, unless it is
 * NULL. */
int hiprt_books_settle(hiprt_books *books, const hiprt_lane *lane, int wait);
/* Return how many bytes are retiring: free, but as far as is known still in use on the lane that freed them. Those of
 * `lane` are not counted. */
uint64_t hiprt_books_retiring(hiprt_books *books, const hiprt_lane *lane);
void hiprt_books_give(hiprt_books *books, hiprt_block *block);
/* To grow, reserve bytes, get memory, then add it as one block in use, or cancel. limit: of all chunks, in bytes; 0:
 * none.
 * needs_idle: whoever gets the chunk back does not wait for the work that used it. */
int hiprt_books_reserve(hiprt_books *books, uint64_t nbytes, uint64_t limit);
void hiprt_books_cancel(hiprt_books *books, uint64_t nbytes);
int hiprt_books_add(hiprt_books *books, hiprt_lane *lane, uint64_t number, uint64_t address, uint64_t nbytes,
                    int needs_idle, hiprt_block **out_block);
/* Forget chunks that nobody uses, at most `capacity`, and return how many; their numbers tell the owner what to give
 * back. Chunks that need it stay until they are known to be idle. force: the caller has waited for the device. */
uint32_t hiprt_books_trim(hiprt_books *books, int force, uint32_t capacity, uint64_t *out_numbers);
void hiprt_books_measure(hiprt_books *books, hiprt_pool_stats *out_stats);
/* The bytes that nobody holds, and the high-water mark: these do not walk through the blocks. */
uint64_t hiprt_books_unused(hiprt_books *books);
uint64_t hiprt_books_peak(hiprt_books *books);
/* Lets the high-water mark be found anew, from 0. */
void hiprt_books_reset_peak(hiprt_books *books);
/* List at most `capacity` blocks, and return how many there are. */
uint32_t hiprt_books_list(hiprt_books *books, uint32_t capacity, hiprt_books_entry *out_entries);
/* cffi end */
/* Order the stream of a block, which is given next, behind what other streams do with it. Return a status. */
int hiprt_books_take_back(hiprt_books *books, const hiprt_block *block, hiprt_uses *uses);
/* Give a reference to who works with a block that was taken; NULL: nobody, as far as is noted. Return a status. */
int hiprt_books_uses(hiprt_books *books, const hiprt_block *block, hiprt_uses **out_uses);
