/* What a recorder is made of: its nodes and their payloads, for the files that implement recorder.h, recording.h, compare.h,
 * follow.h, addresses.h and touches.h, and for no others. The recorder owns all of it; see recorder.h for threads. */
#pragma once
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "captured.h"
#include "captured_pointers.h"
#include "deps.h"
#include "kernel.h"
#include "node.h"
#include "order.h"
#include "room.h"

#define HIPRT_RECORDER "hiprt_recorder" /* what is named where memory runs out */
#define HIPRT_HASH_START 14695981039346656037u

typedef struct {
  uint32_t kind;
  uint32_t payload_size;
  hiprt_kernel *kernel;
  uint32_t may_overlap;
  size_t payload; /* where it starts in `bytes` */
  uint32_t deps, n_deps; /* where they start in `deps` */
  hiprt_captured *captured; /* NULL unless it is work of other code, as the next */
  hipGraphNode_t source;
  uint64_t key; /* the recording's, up to this node */
} node;

struct hiprt_recorder {
  atomic_uint references;
  hiprt_deps *tracker; /* it knows the first `tracked` nodes */
  uint32_t tracked, edges;
  hiprt_recorder *like; /* whose first nodes all nodes so far are, as far as edges go; NULL: none is known */
  hiprt_deps *wired;    /* the tracker by which all edges were found, where that is not this recorder's own; else NULL */
  uint64_t alike;       /* recorders of one number have one key; the number is that of the first of them */
  uint64_t declared;    /* bytes of distinct memory, where the tracker does not know all nodes */
  int is_moved;         /* addresses have changed since the edges were found */
  node *nodes;
  uint32_t n_nodes;
  size_t nodes_capacity;
  hiprt_kernel **kernels; /* the references that are held: one of each kernel, or a few */
  size_t n_kernels, kernels_capacity;
  char *bytes; /* payloads, each aligned to 8 */
  size_t n_bytes, bytes_capacity;
  uint32_t *deps;
  size_t n_deps, deps_capacity;
  uint64_t key, serial;
  hiprt_pointers *pointers; /* NULL unless the arguments are those that follow from it and from `starts` */
  uint64_t *starts;
  uint32_t max_nodes; /* 0: no bound */
  uint64_t max_bytes;
  void (*added)(void *owner); /* called for each node that is recorded, unless NULL */
  void *owner;
  hipStream_t captured; /* NULL unless other code's work is taken in by capture */
  uint32_t n_foreign;
  int is_broken; /* a node could not be recorded: the tracker may have counted it, and would number later ones wrongly */
  hiprt_touch *touches; /* each piece of memory once, but for those of arguments that were set apart */
  size_t n_touches, touches_capacity;
  uint32_t *arguments; /* where the memory of each argument that was set apart stands in `touches`; UINT32_MAX: nowhere */
  size_t n_arguments, arguments_capacity;
};

/* Return the size of a node's arguments, which a kernel's dimensions are not part of, and where they start. */
static inline size_t arguments_of(const node *n, size_t *out_start) {
  *out_start = n->payload;
  if (n->kind == HIPRT_NODE_OPAQUE) {
    *out_start += offsetof(hiprt_opaque, serial);
    return sizeof(uint64_t);
  }
  if (n->kind != HIPRT_NODE_KERNEL) return n->payload_size;
  *out_start += sizeof(hiprt_dims);
  return n->kernel->args_size;
}

/* Whether a node is a kernel; its payload begins with dimensions. */
static inline int is_launch(const node *n) { return n->kind == HIPRT_NODE_KERNEL || n->kind == HIPRT_NODE_OPAQUE; }

static inline uint64_t function_of(const hiprt_recorder *r, const node *n) {
  if (n->kernel) return (uint64_t)(uintptr_t)n->kernel->function;
  return ((const hiprt_opaque *)(r->bytes + n->payload))->function;
}

/* Whether payloads are the same, whose size is a multiple of 8. Most are too short for a call of memcmp to pay. */
static inline int are_same(const char *a, const char *b, size_t size) {
  if (size > 128) return !memcmp(a, b, size);
  for (size_t i = 0; i < size; i += 8) {
    uint64_t x, y;
    memcpy(&x, a + i, 8);
    memcpy(&y, b + i, 8);
    if (x != y) return 0;
  }
  return 1;
}

/* Whether a node works on something that it did not name. */
static inline int is_barrier(const node *n) {
  if (n->captured) return n->captured->is_barrier;
  return n->kind == HIPRT_NODE_EMPTY || (n->kind == HIPRT_NODE_KERNEL && !n->kernel->n_written);
}

/* Give the memory that a node declares, and what it does with each range; returns how many there are. They may lie in `own`. */
static inline uint32_t ranges_of(const hiprt_recorder *r, const node *n, hiprt_range own[2], const hiprt_range **out_ranges,
                                 const uint8_t **out_access) {
  static const uint8_t read_then_write[] = {HIPRT_READ, HIPRT_WRITE}, write[] = {HIPRT_WRITE};
  const char *payload = r->bytes + n->payload;
  *out_ranges = own;
  *out_access = 0;
  if (n->captured) {
    *out_ranges = n->captured->ranges;
    *out_access = n->captured->access;
    return n->captured->n_ranges;
  }
  if (n->kind == HIPRT_NODE_KERNEL) {
    *out_ranges = hiprt_kernel_ranges(n->kernel, payload);
    *out_access = n->kernel->access;
    return n->kernel->n_buffers;
  }
  if (n->kind == HIPRT_NODE_COPY) {
    own[0] = hiprt_copy_source((const hiprt_copy_args *)payload);
    own[1] = hiprt_copy_target((const hiprt_copy_args *)payload);
    *out_access = read_then_write;
    return 2;
  }
  if (n->kind != HIPRT_NODE_FILL) return 0;
  own[0] = hiprt_fill_target((const hiprt_fill_args *)payload);
  *out_access = write;
  return 1;
}

/* Return the bytes of distinct memory that the nodes declare; where another recorder is followed, it is at most as many. */
static inline uint64_t declared_bytes(const hiprt_recorder *r) {
  return r->tracked == r->n_nodes ? hiprt_deps_bytes(r->tracker) : r->declared;
}

static inline int is_full(const hiprt_recorder *r) {
  if (!r->n_nodes) return 0;
  return (r->max_nodes && r->n_nodes >= r->max_nodes) || (r->max_bytes && declared_bytes(r) >= r->max_bytes);
}
