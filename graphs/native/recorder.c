#include "recorder.h"

#include <stdlib.h>

#include "addresses.h"
#include "guards.h"
#include "recorder_nodes.h"
#include "status.h"

int hiprt_recorder_create(uint32_t edges, hiprt_recorder **out_recorder) {
  hiprt_recorder *r = calloc(1, sizeof *r);
  *out_recorder = 0;
  if (r) r->tracker = hiprt_deps_create();
  if (!r || !r->tracker) {
    free(r);
    return hiprt_fail(HIPRT_E_MEMORY, "hiprt_recorder_create", 0);
  }
  static _Atomic uint64_t serials;
  atomic_init(&r->references, 1);
  r->serial = r->alike = atomic_fetch_add_explicit(&serials, 1, memory_order_relaxed) + 1;
  r->edges = edges;
  hiprt_deps_set_edges(r->tracker, edges);
  r->key = HIPRT_HASH_START;
  *out_recorder = r;
  return 0;
}

void hiprt_recorder_retain(hiprt_recorder *r) { atomic_fetch_add_explicit(&r->references, 1, memory_order_relaxed); }

uint32_t hiprt_recorder_references(const hiprt_recorder *r) {
  return atomic_load_explicit(&r->references, memory_order_acquire);
}

void hiprt_recorder_release(hiprt_recorder *r) {
  if (!r || atomic_fetch_sub_explicit(&r->references, 1, memory_order_acq_rel) != 1) return;
  for (uint32_t i = 0; r->n_foreign && i < r->n_nodes; i++) hiprt_captured_release(r->nodes[i].captured);
  for (size_t i = 0; i < r->n_kernels; i++) hiprt_kernel_release(r->kernels[i]);
  for (size_t i = 0; i < r->n_touches; i++) hiprt_uses_release(r->touches[i].uses);
  hiprt_recorder_forget_pointers(r);
  hiprt_recorder_release(r->like);
  hiprt_deps_release(r->tracker);
  hiprt_deps_release(r->wired);
  free(r->touches);
  free(r->arguments);
  free(r->nodes);
  free(r->kernels);
  free(r->bytes);
  free(r->deps);
  free(r);
}

void hiprt_recorder_listen(hiprt_recorder *r, hipStream_t stream) { r->captured = stream; }

void hiprt_recorder_limit(hiprt_recorder *r, uint32_t nodes, uint64_t bytes) {
  r->max_nodes = nodes;
  r->max_bytes = bytes;
}

void hiprt_recorder_watch(hiprt_recorder *r, void (*added)(void *owner), void *owner) {
  r->added = added;
  r->owner = owner;
}

int hiprt_recorder_is_broken(const hiprt_recorder *r) { return r->is_broken; }

int hiprt_recorder_is_full(const hiprt_recorder *r) { return is_full(r); }

int hiprt_recorder_reserve(hiprt_recorder *r, const hiprt_recorder *like) {
  if (hiprt_room((void **)&r->nodes, 0, like->n_nodes, &r->nodes_capacity, sizeof *r->nodes, HIPRT_RECORDER) ||
      hiprt_room((void **)&r->bytes, 0, like->n_bytes, &r->bytes_capacity, 1, HIPRT_RECORDER))
    return HIPRT_E_MEMORY;
  return hiprt_room((void **)&r->deps, 0, like->n_deps, &r->deps_capacity, sizeof *r->deps, HIPRT_RECORDER);
}

int hiprt_recorder_is_in_use(const hiprt_recorder *r) {
  const hiprt_captured *captured = r->n_foreign ? r->nodes->captured : 0;
  return hiprt_recorder_references(r) > 1 || (captured && atomic_load(&captured->references) > r->n_foreign);
}

int hiprt_recorder_captured_on(const hiprt_recorder *r) {
  return r->n_nodes && r->n_foreign == r->n_nodes ? r->nodes->captured->device : -1;
}

uint32_t hiprt_recorder_size(const hiprt_recorder *r) { return r->n_nodes; }
uint64_t hiprt_recorder_edges(const hiprt_recorder *r) { return r->n_deps; }
uint32_t hiprt_recorder_foreign(const hiprt_recorder *r) { return r->n_foreign; }
uint64_t hiprt_recorder_bytes(const hiprt_recorder *r) { return r->n_bytes; }
uint64_t hiprt_recorder_key(const hiprt_recorder *r) { return hiprt_guards_off & HIPRT_GUARD_KEY ? r->n_nodes : r->key; }

/* Return a hash of a node's arguments and of its place. Payloads are multiples of 8 bytes long. */
static uint64_t hash_of(const hiprt_recorder *r, const node *n) {
  uint64_t found = HIPRT_HASH_START + (uint64_t)(n - r->nodes) * 0x9e3779b97f4a7c15u;
  size_t start, size = arguments_of(n, &start);
  for (size_t i = 0; i < size; i += 8) {
    uint64_t word;
    memcpy(&word, r->bytes + start + i, 8);
    found = (found ^ word) * 1099511628211u;
    found ^= found >> 29;
  }
  return found;
}

uint64_t hiprt_recorder_arguments(const hiprt_recorder *r) {
  uint64_t found = HIPRT_HASH_START;
  for (uint32_t i = 0; i < r->n_nodes; i++) found += hash_of(r, r->nodes + i);
  return found;
}

void hiprt_recorder_work(const hiprt_recorder *r, uint32_t index, hiprt_node *out) {
  const node *n = r->nodes + index;
  out->kind = n->kind;
  out->kernel = n->kernel;
  out->payload = r->bytes + n->payload;
  out->payload_size = n->payload_size;
}

int hiprt_recorder_node(const hiprt_recorder *r, uint32_t index, hiprt_node *out) {
  if (index >= r->n_nodes) return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_recorder_node", "no such node");
  const node *n = r->nodes + index;
  memset(out, 0, sizeof *out);
  hiprt_recorder_work(r, index, out);
  out->name = n->kernel ? n->kernel->name : 0;
  if (n->kind == HIPRT_NODE_OPAQUE) out->name = ((const hiprt_opaque *)out->payload)->name;
  if (is_launch(n)) out->function = function_of(r, n);
  out->deps = r->deps + n->deps;
  out->n_deps = n->n_deps;
  out->n_ranges = ranges_of(r, n, out->own, &out->ranges, &out->access);
  if (n->kind == HIPRT_NODE_KERNEL && !n->captured) {
    out->addresses = n->kernel->addresses;
    out->n_addresses = n->kernel->n_addresses;
  }
  out->may_overlap = n->may_overlap;
  out->is_barrier = (uint32_t)is_barrier(n);
  out->source = n->source;
  return 0;
}
