/* Repeated nodes: whether what is recorded next is what a recorder that is followed has in its place; see follow.h.
 *
 * It is asked for each node, and stands in a header so that no call is made for it. Called by the thread that records. */
#pragma once
#include "recorder_nodes.h"

/* Whether a read of one range has the edges that a read of another one had in the recorder that is followed: no node writes
 * either. What is written is the same in both recorders. */
static inline int reads_alike(hiprt_recorder *r, hiprt_range was, hiprt_range is) {
  if (!r->wired || hiprt_deps_has_writer(r->wired, was.start, was.end) || hiprt_deps_has_writer(r->wired, is.start, is.end))
    return 0;
  const uint64_t declared = r->declared + (is.end - is.start);
  if (r->max_bytes && declared >= r->max_bytes) return 0;
  r->declared = declared;
  return 1;
}

/* Whether a kernel's buffers are those that they were, or others that are read and have the same edges. */
static inline int has_same_edges(hiprt_recorder *r, const hiprt_kernel *kernel, const char *was, const char *is) {
  const size_t size = kernel->n_buffers * sizeof(hiprt_range);
  const hiprt_range *before = hiprt_kernel_ranges(kernel, was), *now = hiprt_kernel_ranges(kernel, is);
  if (are_same((const char *)before, (const char *)now, size)) return 1;
  for (uint32_t i = 0; i < kernel->n_buffers; i++) {
    if (before[i].start == now[i].start && before[i].end == now[i].end) continue;
    if (kernel->access[i] != HIPRT_READ || !reads_alike(r, before[i], now[i])) return 0;
  }
  return 1;
}

/* Whether a node, which is begun and not counted yet, touches what the node in its place does in the recorder that is followed,
 * in the same way, but for what is only read in both. Its edges are the same then, since those of all nodes before it are. */
static inline int repeats(hiprt_recorder *r, const node *n) {
  const hiprt_recorder *like = r->like;
  const node *known = like->nodes + r->n_nodes;
  if (r->n_nodes >= like->n_nodes || known->kind != n->kind || known->kernel != n->kernel || known->captured || n->captured)
    return 0;
  const char *was = like->bytes + known->payload, *is = r->bytes + n->payload;
  if (n->kind == HIPRT_NODE_KERNEL)
    return are_same(was, is, sizeof(hiprt_dims)) && has_same_edges(r, n->kernel, was, is);
  if (n->kind == HIPRT_NODE_COPY) {
    const hiprt_copy_args *a = (const hiprt_copy_args *)was, *b = (const hiprt_copy_args *)is;
    if (a->dst != b->dst || a->nbytes != b->nbytes) return 0;
    return a->src == b->src || reads_alike(r, hiprt_copy_source(a), hiprt_copy_source(b));
  }
  if (n->kind != HIPRT_NODE_FILL) return n->kind == HIPRT_NODE_EMPTY;
  const hiprt_fill_args *a = (const hiprt_fill_args *)was, *b = (const hiprt_fill_args *)is;
  return a->dst == b->dst && a->count == b->count && a->width == b->width;
}
