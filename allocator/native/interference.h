/* Interference: which requests of a step conflict, as in a compiler's interference graph, and which continue others in
 * place. A plan of memory depends on this and on sizes. What it means is said in allocator/planner.py. */
#pragma once
#include <stdint.h>

/* cffi begin */
typedef struct hiprt_interference hiprt_interference;

/* The requests of a step, and its nodes. Requests that nobody touches, and those of no bytes, conflict with none. */
typedef struct {
  uint32_t n_requests, n_nodes, n_in_place;
  const int64_t *sizes;         /* by request; it counts whether they are zero, and equal for what is written in place */
  const uint8_t *is_result;     /* by request: whether somebody reads it after the step */
  const uint32_t *user_begins;  /* by request, and one more: where its users begin */
  const uint32_t *users;        /* the nodes that touch it, ascending */
  const uint32_t *earlier_begins; /* by node, and one more */
  const uint32_t *earlier;      /* the earlier nodes that it waits for */
  const uint32_t *in_place;     /* node, source and target of each that may be written in place, ascending */
} hiprt_requests;

/* How requests were placed. */
typedef struct {
  int64_t nbytes, lower_bound;
  uint32_t is_apart; /* nothing was placed in place of another */
} hiprt_placed;

int hiprt_interference_create(const hiprt_requests *requests, hiprt_interference **out_interference);
void hiprt_interference_release(hiprt_interference *interference);
/* Return, by request, the one whose memory it continues in place, or itself. */
const uint32_t *hiprt_interference_heads(const hiprt_interference *interference);
/* Place requests of other sizes, which are zero, or equal, where those that were given first are; offsets are
 * multiples of `alignment`, to which sizes are rounded up. */
int hiprt_interference_place(const hiprt_interference *interference, const int64_t *sizes, int64_t alignment,
                             int64_t *out_offsets, hiprt_placed *out_placed);
/* cffi end */
