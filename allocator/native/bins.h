/* Bins: a lane's free blocks by size, each bin a heap with the earliest chunk and lowest address on top. */
#pragma once
#include "pool.h"

#define HIPRT_GRAIN 512u /* bytes; every block is a multiple */
#define HIPRT_MOST (1ull << 60) /* no request of more is served */
#define HIPRT_ANY UINT64_MAX
#define HIPRT_NOWHERE UINT32_MAX

/* Size of the block that serves a request: the next of eight steps between powers of two. */
uint64_t hiprt_pool_class(uint64_t nbytes);
/* Without memory for the heap the block stays out of its bin, to be found again when it is merged or trimmed. */
void hiprt_bins_add(hiprt_lane *lane, block *b);
void hiprt_bins_remove(hiprt_lane *lane, block *b);
/* The first block of at least nbytes and less than twice that, freed no later than serial; NULL if there is none. */
block *hiprt_bins_find(const hiprt_lane *lane, uint64_t nbytes, uint64_t serial);
int hiprt_bins_precede(const block *a, const block *b);
void hiprt_bins_free(hiprt_lane *lane);
