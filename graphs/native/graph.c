#include "graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "captured.h"
#include "room.h"
#include "status.h"

/* A source is a node with out-edges. They start at the node itself, or at the leaves of a tree of join nodes behind
 * it. */
typedef struct {
  uint32_t consumers; /* out-edges in all */
  uint32_t used;      /* out-edges handed out so far */
  uint32_t leaves;    /* index of the first leaf in builder.joins */
} source;

typedef struct {
  const hiprt_recorder *recorder;
  hipGraph_t graph;
  hipGraphNode_t *nodes, root;
  uint32_t size, fanout, overlaps;
  int overlap;
  source *sources; /* one for each node, then one for the root */
  hipGraphNode_t *joins;
  uint32_t n_joins;
  size_t joins_room;
} builder;

hipMemsetParams hiprt_fill_params(const hiprt_fill_args *f) {
  hipMemsetParams p = {0};
  p.dst = (void *)(uintptr_t)f->dst;
  p.elementSize = f->width;
  p.value = f->value;
  p.width = f->count;
  p.height = 1;
  return p;
}

static int count_consumers(builder *b) {
  b->sources = calloc((size_t)b->size + 1, sizeof *b->sources);
  if (!b->sources) return hiprt_fail(HIPRT_E_MEMORY, "hiprt_graph_build", 0);
  for (uint32_t i = 0; i < b->size; i++) {
    hiprt_node n;
    hiprt_recorder_node(b->recorder, i, &n);
    for (uint32_t k = 0; k < n.n_deps; k++) b->sources[n.deps[k]].consumers++;
    b->sources[b->size].consumers += n.n_deps == 0;
  }
  return 0;
}

static int add_join(builder *b, hipGraphNode_t parent) {
  const int status = hiprt_room((void **)&b->joins, b->n_joins, 1, &b->joins_room, sizeof *b->joins, "hiprt_graph_build");
  if (status) return status;
  HIPRT_TRY(hipGraphAddEmptyNode, b->joins + b->n_joins, b->graph, &parent, 1);
  b->n_joins++;
  return 0;
}

/* Spread a wide fan-out over a tree of empty nodes: CLR's four-stream executor may drop edges of one
 * (rocm-systems#11499, G6). */
static int add_joins(builder *b, uint32_t index, hipGraphNode_t handle) {
  source *s = b->sources + index;
  if (!b->fanout || s->consumers <= b->fanout) return 0;
  uint32_t widths[32], levels = 0, width = s->consumers;
  do widths[levels++] = width = (width + b->fanout - 1) / b->fanout;
  while (width > b->fanout);
  uint32_t above = 0;
  for (uint32_t level = levels; level-- > 0;) {
    uint32_t first = b->n_joins;
    for (uint32_t j = 0; j < widths[level]; j++) {
      int status = add_join(b, level + 1 == levels ? handle : b->joins[above + j / b->fanout]);
      if (status) return status;
    }
    above = first;
  }
  s->leaves = above;
  return 0;
}

/* Return the node that the next edge out of a source starts at. */
static hipGraphNode_t take_edge(builder *b, uint32_t index, hipGraphNode_t handle) {
  source *s = b->sources + index;
  uint32_t ordinal = s->used++;
  return b->fanout && s->consumers > b->fanout ? b->joins[s->leaves + ordinal / b->fanout] : handle;
}

/* Whether a node gets a programmatic edge: from a kernel that is the only node it waits for, and that has no joins. */
static int overlaps(const builder *b, const hiprt_node *n) {
  if (!b->overlap || !n->may_overlap || n->n_deps != 1) return 0;
  if (b->fanout && b->sources[n->deps[0]].consumers > b->fanout) return 0;
  hiprt_node earlier;
  return !hiprt_recorder_node(b->recorder, n->deps[0], &earlier) && earlier.kind == HIPRT_NODE_KERNEL;
}

/* Add a kernel of other code whose arguments only HIP can read, and which copies them. */
static int add_opaque(builder *b, const hiprt_node *n, hipGraphNode_t *out, const hipGraphNode_t *deps, size_t n_deps) {
  hipKernelNodeParams p;
  int status = hiprt_captured_params((const hiprt_opaque *)n->payload, &p);
  if (status) return status;
  HIPRT_TRY(hipGraphAddKernelNode, out, b->graph, deps, n_deps, &p);
  return 0;
}

/* Fail for a kernel that HIP refuses; a graph of other code may have been captured on another device. */
static int refuse_kernel(const builder *b, const hiprt_node *n, int status) {
  const int device = hiprt_recorder_captured_on(b->recorder);
  char detail[200];
  snprintf(detail, sizeof detail, "%s, for a stream of device %d: is it work of another device?", n->name, device);
  return hiprt_fail(status, "hipGraphAddKernelNode", device < 0 ? 0 : detail);
}

static int add_node(builder *b, const hiprt_node *n, uint32_t index, const hipGraphNode_t *deps, size_t n_deps) {
  hipGraphNode_t *out = b->nodes + index;
  if (n->kind == HIPRT_NODE_KERNEL) {
    void *cells[HIPRT_MAX_ARGS];
    hipKernelNodeParams p = hiprt_kernel_params(n->kernel, n->payload, cells);
    const int is_early = overlaps(b, n);
    const int status = is_early ? (int)hiprt_hip.hiprtGraphAddKernelNodeOverlapped(out, b->graph, deps[0], &p)
                                : (int)hiprt_hip.hipGraphAddKernelNode(out, b->graph, deps, n_deps, &p);
    if (status) return refuse_kernel(b, n, status);
    b->overlaps += is_early != 0;
  } else if (n->kind == HIPRT_NODE_COPY) {
    const hiprt_copy_args *c = (const hiprt_copy_args *)n->payload;
    HIPRT_TRY(hipGraphAddMemcpyNode1D, out, b->graph, deps, n_deps, (void *)(uintptr_t)c->dst,
              (const void *)(uintptr_t)c->src, c->nbytes, hipMemcpyDeviceToDevice);
  } else if (n->kind == HIPRT_NODE_FILL) {
    hipMemsetParams p = hiprt_fill_params((const hiprt_fill_args *)n->payload);
    HIPRT_TRY(hipGraphAddMemsetNode, out, b->graph, deps, n_deps, &p);
  } else if (n->kind == HIPRT_NODE_OPAQUE) {
    int status = add_opaque(b, n, out, deps, n_deps);
    if (status) return status;
  } else {
    HIPRT_TRY(hipGraphAddEmptyNode, out, b->graph, deps, n_deps);
  }
  /* What HIP kernels have of these are hints, and CLR refuses to copy where there are none; clusters, which NVIDIA's
   * kernels need, come over. */
  if (n->source && (n->kind == HIPRT_NODE_KERNEL || n->kind == HIPRT_NODE_OPAQUE) &&
      hiprt_hip.hipGraphKernelNodeCopyAttributes)
    hiprt_hip.hipGraphKernelNodeCopyAttributes(n->source, *out);
  return add_joins(b, index, *out);
}

/* Make one root of several: with several, CLR's segment scheduler may start a branch before earlier work of the stream
 * (G6). */
static int add_root(builder *b) {
  if (!b->fanout || b->sources[b->size].consumers < 2) return 0;
  HIPRT_TRY(hipGraphAddEmptyNode, &b->root, b->graph, 0, 0);
  return add_joins(b, b->size, b->root);
}

static int add_nodes(builder *b) {
  hipGraphNode_t *deps = 0;
  size_t capacity = 0;
  int status = add_root(b);
  for (uint32_t i = 0; !status && i < b->size; i++) {
    hiprt_node n;
    hiprt_recorder_node(b->recorder, i, &n);
    if (n.n_deps + 1 > capacity) {
      capacity = (size_t)n.n_deps * 2 + 8;
      free(deps);
      deps = malloc(capacity * sizeof *deps);
      if (!deps) return hiprt_fail(HIPRT_E_MEMORY, "hiprt_graph_build", 0);
    }
    size_t n_deps = 0;
    for (uint32_t k = 0; k < n.n_deps; k++) deps[n_deps++] = take_edge(b, n.deps[k], b->nodes[n.deps[k]]);
    if (!n_deps && b->root) deps[n_deps++] = take_edge(b, b->size, b->root);
    status = add_node(b, &n, i, n_deps ? deps : 0, n_deps);
  }
  free(deps);
  return status;
}

static int set_node(const hiprt_node *n, hipGraphNode_t node) {
  if (n->kind == HIPRT_NODE_KERNEL) {
    void *cells[HIPRT_MAX_ARGS];
    hipKernelNodeParams p = hiprt_kernel_params(n->kernel, n->payload, cells);
    HIPRT_TRY(hipGraphKernelNodeSetParams, node, &p);
  } else if (n->kind == HIPRT_NODE_COPY) {
    const hiprt_copy_args *c = (const hiprt_copy_args *)n->payload;
    HIPRT_TRY(hipGraphMemcpyNodeSetParams1D, node, (void *)(uintptr_t)c->dst, (const void *)(uintptr_t)c->src, c->nbytes,
              hipMemcpyDeviceToDevice);
  } else if (n->kind == HIPRT_NODE_FILL) {
    hipMemsetParams p = hiprt_fill_params((const hiprt_fill_args *)n->payload);
    HIPRT_TRY(hipGraphMemsetNodeSetParams, node, &p);
  } else if (n->kind == HIPRT_NODE_OPAQUE) {
    hipKernelNodeParams p;
    int status = hiprt_captured_params((const hiprt_opaque *)n->payload, &p);
    if (status) return status;
    HIPRT_TRY(hipGraphKernelNodeSetParams, node, &p);
  }
  return 0;
}

int hiprt_graph_set(const hiprt_recorder *recorder, const hipGraphNode_t *nodes) {
  const uint32_t size = hiprt_recorder_size(recorder);
  int status = 0;
  hiprt_node n;
  for (uint32_t i = 0; !status && i < size; i++) {
    hiprt_recorder_work(recorder, i, &n);
    status = set_node(&n, nodes[i]);
  }
  return status;
}

int hiprt_graph_build(const hiprt_recorder *recorder, const hiprt_graph_options *options, hipGraph_t *out_graph,
                      hipGraphNode_t *out_nodes, uint32_t *out_overlaps) {
  builder b = {0};
  b.recorder = recorder;
  b.nodes = out_nodes;
  b.size = hiprt_recorder_size(recorder);
  b.fanout = options->fanout;
  b.overlap = options->overlap && hiprt_hip.hiprtGraphAddKernelNodeOverlapped;
  *out_graph = 0;
  if (b.fanout == 1) return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_graph_build", "a fan-out of 1 leaves no tree of join nodes");
  HIPRT_TRY(hipGraphCreate, &b.graph, 0);
  int status = count_consumers(&b);
  if (!status) status = add_nodes(&b);
  *out_overlaps = b.overlaps;
  free(b.sources);
  free(b.joins);
  if (status)
    hiprt_hip.hipGraphDestroy(b.graph);
  else
    *out_graph = b.graph;
  return status;
}
