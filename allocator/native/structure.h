/* Structures: what a plan of memory depends on besides sizes, which is the requests that conflict, and those that continue
 * others in place. What that means is said in allocator/planner.py. */
#pragma once
#include <stdint.h>

/* cffi begin */
typedef struct hiprt_structure hiprt_structure;

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

int hiprt_structure_create(const hiprt_requests *requests, hiprt_structure **out_structure);
void hiprt_structure_release(hiprt_structure *structure);
/* Return, by request, the one whose memory it continues in place, or itself. */
const uint32_t *hiprt_structure_heads(const hiprt_structure *structure);
/* Place requests of other sizes, which are zero, or equal, where those of the structure are; offsets are multiples of
 * `alignment`, to which sizes are rounded up. */
int hiprt_structure_place(const hiprt_structure *structure, const int64_t *sizes, int64_t alignment, int64_t *out_offsets,
                          hiprt_placed *out_placed);
/* cffi end */
