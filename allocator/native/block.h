/* Blocks, and the chunks of memory that they are cut from. */
#pragma once
#include "hiprt/hiprt.h"

/* cffi begin */
/* A stream as a pool sees it. */
typedef struct hiprt_lane hiprt_lane;
/* cffi end */

typedef struct hiprt_chunk hiprt_chunk;
typedef struct block block;

struct block {
  hiprt_block shown;    /* first: the pointer that the interface shows is one to here */
  hiprt_chunk *chunk;
  hiprt_lane *lane;     /* that uses it, or used it last */
  block *before, *next; /* neighbours in the chunk, by address */
  uint64_t serial;      /* of the last free, counted by the lane */
  uint32_t place;       /* in the heap of its bin */
  uint32_t is_used;
};

struct hiprt_chunk {
  uint64_t number, address, nbytes, used;
  int needs_idle; /* no work may use it when it is given back */
  block *first;
  hiprt_chunk *before, *next;
};
