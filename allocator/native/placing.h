/* Placing: the offsets of requests in one block of memory, in one order of placing after the other. */
#pragma once
#include <stdint.h>

/* Requests that are placed; what they are is said in allocator/planner.py. */
typedef struct {
  uint32_t count;
  const uint32_t *heads;  /* by request: the one whose memory it continues, or itself; heads are placed */
  const uint32_t *firsts; /* by request: the first node that touches it */
  const uint32_t *begins; /* by request, and one more: where its part of `others` begins */
  const uint32_t *others; /* the heads that a head conflicts with */
} hiprt_placing;

/* The orders of placing: by size and the bytes it conflicts with; by size; by those bytes and size; by first node and
 * size. */
enum { HIPRT_PLACING_ORDERS = 4 };

/* Place requests of these sizes, each into the tightest gap between those it conflicts with. Return the size of the block,
 * or -1 without memory. */
int64_t hiprt_place(const hiprt_placing *placing, const int64_t *sizes, uint32_t order, int64_t *offsets);

/* When requests are live in program order. */
typedef struct {
  uint32_t count, steps;    /* spans; nodes, at least one */
  const uint32_t *requests; /* by span */
  const uint32_t *begins;   /* the first node */
  const uint32_t *ends;     /* the node behind the last; `steps`: it is live to the end */
} hiprt_spans;

/* Round `n` sizes up to multiples of `alignment`, and return the most of these bytes that are live at once; -1 without
 * memory. */
int64_t hiprt_most_live(const hiprt_spans *spans, uint32_t n, const int64_t *sizes, int64_t alignment, int64_t *out_aligned);
