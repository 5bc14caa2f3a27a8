/* Nodes: what a recorder shows of one piece of work that was recorded.
 *
 * What the pointers show belongs to the recorder, and stays where it is until a node is added or one's payload is changed.
 * Any thread that may read the recorder may read a node. */
#pragma once
#include <stdint.h>

#include "kernel.h"

/* cffi begin */
typedef struct hiprt_recorder hiprt_recorder; /* what keeps nodes: see recorder.h */

/* An opaque node is a kernel of other code whose arguments only HIP can read. */
enum hiprt_node_kind { HIPRT_NODE_KERNEL, HIPRT_NODE_COPY, HIPRT_NODE_FILL, HIPRT_NODE_EMPTY, HIPRT_NODE_OPAQUE };

/* The payload of a copy node, and of a fill node. */
typedef struct {
  uint64_t dst, src, nbytes;
} hiprt_copy_args;
typedef struct {
  uint64_t dst, count;
  uint32_t value, width;
} hiprt_fill_args;

typedef struct {
  uint32_t kind;        /* hiprt_node_kind */
  hiprt_kernel *kernel; /* NULL unless the node is a kernel whose arguments are known */
  const char *name;     /* NULL unless the node is a kernel */
  const char *payload;  /* a kernel's is laid out as kernel.h says, an opaque one's as captured.h; an empty node has none */
  uint32_t payload_size;
  uint64_t function;    /* hipFunction_t; 0 unless the node is a kernel */
  const uint32_t *deps; /* earlier nodes that this one waits for, ascending */
  uint32_t n_deps;
  const hiprt_range *ranges; /* the memory that the node declares; may point to `own` */
  const uint8_t *access;     /* hiprt_access of each range */
  uint32_t n_ranges;
  const uint32_t *addresses; /* where a kernel's payload holds addresses that are no buffers */
  uint32_t n_addresses;
  uint32_t may_overlap; /* it waits itself, and nothing before it wrote what it reads ahead of that */
  uint32_t is_barrier;  /* it waits for all before it, and all behind it wait for it */
  void *source;         /* the hipGraphNode_t that was captured of other code's work; NULL for our own */
  hiprt_range own[2];
} hiprt_node;
/* cffi end */

static inline hiprt_range hiprt_copy_source(const hiprt_copy_args *c) { return (hiprt_range){c->src, c->src + c->nbytes}; }
static inline hiprt_range hiprt_copy_target(const hiprt_copy_args *c) { return (hiprt_range){c->dst, c->dst + c->nbytes}; }
static inline hiprt_range hiprt_fill_target(const hiprt_fill_args *f) {
  return (hiprt_range){f->dst, f->dst + f->count * f->width};
}
