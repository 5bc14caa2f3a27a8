#include "captured_graph.h"

#include <stdio.h>
#include <stdlib.h>

#include "capture.h"
#include "captured_copy.h"
#include "captured_kernel.h"

/* Append the nodes of a graph. before: the pieces that it waits for. *out_ends: those that nodes behind it wait for. */
static int append_graph(hiprt_pieces *all, hipGraph_t graph, hiprt_span before, hiprt_span *out_ends);

/* Append what a node that is no graph does. before: the pieces that it waits for. */
static int append_node(hiprt_pieces *all, hipGraphNode_t source, hipGraphNodeType type, hiprt_span before) {
  switch ((int)type) {
    case hipGraphNodeTypeKernel: return hiprt_captured_kernel(all, source);
    case hipGraphNodeTypeMemcpy: return hiprt_captured_copy(all, source);
    case hipGraphNodeTypeMemset: return hiprt_captured_fill(all, source);
    case hipGraphNodeTypeEmpty:
      return all->keeps_edges && before.count > 1 ? hiprt_pieces_append(all, HIPRT_NODE_EMPTY, source, 0, 0, 0) : 0;
    case hipGraphNodeTypeHost: return hiprt_pieces_refuse("a function of the host (hipLaunchHostFunc)");
    case hipGraphNodeTypeWaitEvent:
    case hipGraphNodeTypeEventRecord: return hiprt_pieces_refuse("an external event");
    case hipGraphNodeTypeMemAlloc:
    case hipGraphNodeTypeMemFree:
      return hiprt_pieces_refuse("memory that is allocated or freed in stream order (hipMallocAsync)");
    case hipGraphNodeTypeMemcpyFromSymbol:
    case hipGraphNodeTypeMemcpyToSymbol: return hiprt_pieces_refuse("a copy from or to a symbol");
    default: {
      char what[64];
      snprintf(what, sizeof what, "a graph node of type %d", (int)type);
      return hiprt_pieces_refuse(what);
    }
  }
}

/* A node of a graph that is being flattened. */
typedef struct {
  hipGraphNode_t handle;
  uint32_t place;         /* in the graph's own order */
  uint32_t first, n_deps; /* the nodes that it waits for, in flattening.deps */
  int is_done, is_waited_for;
  int overlaps; /* its kernel waits by itself for the one node before it */
  hiprt_span ends;
} member;

typedef struct {
  member *members;   /* in the graph's own order */
  member *by_handle; /* ascending, once one was looked for that does not lie near */
  int is_sorted;
  uint32_t *deps;
  size_t count;
} flattening;

static int by_handle(const void *a, const void *b) {
  const uintptr_t x = (uintptr_t)((const member *)a)->handle, y = (uintptr_t)((const member *)b)->handle;
  return (x > y) - (x < y);
}

/* Return where a node stands. It is looked for first at `near` and behind that: most nodes wait for the one before. */
static uint32_t place_of(flattening *f, hipGraphNode_t handle, uint32_t near) {
  for (uint32_t place = near; place < f->count && place < near + 2; place++)
    if (f->members[place].handle == handle) return place;
  if (!f->is_sorted) {
    for (size_t i = 0; i < f->count; i++) f->by_handle[i] = f->members[i];
    qsort(f->by_handle, f->count, sizeof *f->by_handle, by_handle);
    f->is_sorted = 1;
  }
  const member wanted = {.handle = handle}, *found = bsearch(&wanted, f->by_handle, f->count, sizeof wanted, by_handle);
  return found ? found->place : UINT32_MAX;
}

/* List for each node the nodes that it waits for. */
static int wire(flattening *f, const hiprt_wiring *graph) {
  for (size_t i = 0; i < f->count; i++) f->members[i] = (member){.handle = graph->nodes[i], .place = (uint32_t)i};
  uint32_t from = 0, to = 0;
  for (size_t k = 0; k < graph->n_edges; k++) {
    from = place_of(f, graph->from[k], from);
    to = place_of(f, graph->to[k], to);
    if (from == UINT32_MAX || to == UINT32_MAX) return hiprt_pieces_refuse("a graph with an edge to no node of its own");
    f->members[from].is_waited_for = 1;
    f->members[to].n_deps++;
  }
  uint32_t at = 0;
  for (size_t i = 0; i < f->count; at += f->members[i++].n_deps) f->members[i].first = at;
  for (size_t i = 0; i < f->count; i++) f->members[i].n_deps = 0;
  from = to = 0;
  for (size_t k = 0; k < graph->n_edges; k++) {
    from = place_of(f, graph->from[k], from);
    to = place_of(f, graph->to[k], to);
    f->deps[f->members[to].first + f->members[to].n_deps++] = from;
    f->members[to].overlaps = graph->overlaps[k] && f->members[to].n_deps == 1;
  }
  return 0;
}

/* List the pieces that a node waits for: those that its graph waits for, if it is a root. */
static int gather(hiprt_pieces *all, const flattening *f, const member *m, hiprt_span before, hiprt_span *out) {
  *out = m->n_deps ? (hiprt_span){all->n_links, 0} : before;
  int status = 0;
  for (uint32_t k = 0; !status && k < m->n_deps; k++) {
    const hiprt_span ends = f->members[f->deps[m->first + k]].ends;
    status = hiprt_pieces_link_all(all, out, ends);
  }
  if (!status && m->n_deps) hiprt_pieces_tidy(all, out);
  return status;
}

static int append_child(hiprt_pieces *all, hipGraphNode_t source, hiprt_span before, hiprt_span *out_ends) {
  hipGraph_t child;
  HIPRT_TRY(hipGraphChildGraphNodeGetGraph, source, &child);
  return append_graph(all, child, before, out_ends);
}

/* Append a node, and say which pieces those behind it wait for: the one that it became, or what it waits for itself. */
static int append_member(hiprt_pieces *all, const flattening *f, member *m, hiprt_span before) {
  hipGraphNodeType type;
  hiprt_span deps = {0, 0};
  const uint32_t own = (uint32_t)all->count;
  HIPRT_TRY(hipGraphNodeGetType, m->handle, &type);
  int status = all->keeps_edges ? gather(all, f, m, before, &deps) : 0;
  m->ends = deps;
  if (status) return status;
  if (type == hipGraphNodeTypeGraph) return append_child(all, m->handle, deps, &m->ends);
  status = append_node(all, m->handle, type, deps);
  if (status || all->count == own) return status;
  status = hiprt_pieces_set_deps(all, deps, all->keeps_edges && m->overlaps);
  if (status) return status;
  m->ends = (hiprt_span){all->n_links, 0};
  return all->keeps_edges ? hiprt_pieces_link(all, &m->ends, &own, 1) : 0;
}

/* Append the nodes of a graph, each behind those that it waits for, and else in the graph's own order. */
static int append_members(hiprt_pieces *all, flattening *f, hiprt_span before, hiprt_span *out_ends) {
  for (size_t left = f->count; left;) {
    const size_t last = left;
    for (size_t i = 0; i < f->count; i++) {
      member *m = f->members + i;
      int waits = m->is_done;
      for (uint32_t k = 0; !waits && k < m->n_deps; k++) waits = !f->members[f->deps[m->first + k]].is_done;
      if (waits) continue;
      int status = append_member(all, f, m, before);
      if (status) return status;
      m->is_done = 1;
      left--;
    }
    if (left == last) return hiprt_pieces_refuse("a graph with a cycle");
  }
  *out_ends = f->count ? (hiprt_span){all->n_links, 0} : before;
  int status = 0;
  for (size_t i = 0; !status && all->keeps_edges && i < f->count; i++) {
    const hiprt_span ends = f->members[i].ends;
    if (!f->members[i].is_waited_for) status = hiprt_pieces_link_all(all, out_ends, ends);
  }
  if (!status && f->count) hiprt_pieces_tidy(all, out_ends);
  return status;
}

static int append_graph(hiprt_pieces *all, hipGraph_t graph, hiprt_span before, hiprt_span *out_ends) {
  hiprt_wiring wiring;
  *out_ends = before;
  int status = hiprt_capture_wiring(graph, &wiring);
  if (status) return status;
  flattening f = {.count = wiring.n_nodes};
  f.members = calloc(2 * f.count + 1, sizeof *f.members);
  f.deps = calloc(wiring.n_edges + 1, sizeof *f.deps);
  f.by_handle = f.members + f.count;
  if (!f.members || !f.deps)
    status = hiprt_fail(HIPRT_E_MEMORY, "hiprt_flatten", 0);
  else
    status = wire(&f, &wiring);
  if (!status) status = append_members(all, &f, before, out_ends);
  free(f.members);
  free(f.deps);
  free(wiring.nodes);
  return status;
}

int hiprt_captured_walk(hiprt_pieces *all, hipGraph_t graph) {
  hiprt_span ends;
  return append_graph(all, graph, (hiprt_span){0, 0}, &ends);
}
