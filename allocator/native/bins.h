/* Bins: a lane's free blocks by size, each bin a heap with the block of the earliest chunk and lowest address on
 * top. */
#pragma once
#include "block.h"

#define HIPRT_GRAIN 512u        /* bytes; the size of every block is a multiple */
#define HIPRT_MOST (1ull << 60) /* bytes; no request of more is served */
#define HIPRT_ANY UINT64_MAX
#define HIPRT_NOWHERE UINT32_MAX

/* cffi begin */
/* Return the size of the block that serves a request: the next of eight steps between powers of two. */
uint64_t hiprt_books_class(uint64_t nbytes);
/* cffi end */

typedef struct {
  block **heap;
  uint32_t size, capacity;
} bin;

typedef struct {
  bin *bins;
  uint32_t count;
} hiprt_bins;

/* Add a free block. Without memory for the heap it stays out of its bin, until it is merged or trimmed. */
void hiprt_bins_add(hiprt_bins *bins, block *b);
void hiprt_bins_remove(hiprt_bins *bins, block *b);
/* Return the first block of at least nbytes and less than twice that, freed no later than serial; NULL if none is. */
block *hiprt_bins_find(const hiprt_bins *bins, uint64_t nbytes, uint64_t serial);
/* Whether a is to be given out before b. */
int hiprt_bins_precede(const block *a, const block *b);
void hiprt_bins_free(hiprt_bins *bins);
