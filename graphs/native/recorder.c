#include "recorder.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "deps.h"
#include "status.h"
#include "stream.h"

typedef struct {
  uint32_t kind;
  uint32_t payload_size;
  hiprt_kernel *kernel;
  size_t payload;  /* offset in bytes */
  uint32_t deps, n_deps;
} node;

struct hiprt_recorder {
  atomic_uint references;
  hiprt_deps *tracker;
  node *nodes;
  uint32_t n_nodes, nodes_capacity;
  char *bytes; /* payloads, each 8-byte aligned */
  size_t n_bytes, bytes_capacity;
  uint32_t *deps;
  size_t n_deps, deps_capacity;
  uint64_t key;
};

/* Make room for `more` items behind `count` in a growing array. */
static int reserve(void **data, size_t count, size_t more, size_t *capacity, size_t size) {
  if (count + more <= *capacity) return 0;
  size_t wanted = *capacity ? *capacity * 2 : 256;
  while (wanted < count + more) wanted *= 2;
  void *grown = realloc(*data, wanted * size);
  if (!grown) return hiprt_fail(HIPRT_E_MEMORY, "hiprt_recorder", 0);
  *data = grown;
  *capacity = wanted;
  return 0;
}

hiprt_recorder *hiprt_recorder_create(uint32_t edges) {
  hiprt_recorder *r = calloc(1, sizeof *r);
  if (r) r->tracker = hiprt_deps_create();
  if (!r || !r->tracker) {
    free(r);
    hiprt_fail(HIPRT_E_MEMORY, "hiprt_recorder_create", 0);
    return 0;
  }
  atomic_init(&r->references, 1);
  hiprt_deps_set_edges(r->tracker, edges);
  hiprt_recorder_reset(r);
  return r;
}

void hiprt_recorder_reset(hiprt_recorder *r) {
  for (uint32_t i = 0; i < r->n_nodes; i++) hiprt_kernel_release(r->nodes[i].kernel);
  hiprt_deps_reset(r->tracker);
  r->n_nodes = 0;
  r->n_bytes = r->n_deps = 0;
  r->key = 14695981039346656037u;
}

void hiprt_recorder_retain(hiprt_recorder *r) { atomic_fetch_add_explicit(&r->references, 1, memory_order_relaxed); }

void hiprt_recorder_release(hiprt_recorder *r) {
  if (!r || atomic_fetch_sub_explicit(&r->references, 1, memory_order_acq_rel) != 1) return;
  hiprt_recorder_reset(r);
  hiprt_deps_destroy(r->tracker);
  free(r->nodes);
  free(r->bytes);
  free(r->deps);
  free(r);
}

/* FNV-1a over 32-bit words: a hash only finds candidates, contents decide (G3). */
static void hash(hiprt_recorder *r, const void *data, size_t n_words) {
  const uint32_t *words = data;
  for (size_t i = 0; i < n_words; i++) r->key = (r->key ^ words[i]) * 1099511628211u;
}

static node *add(hiprt_recorder *r, uint32_t kind, hiprt_kernel *kernel, const void *payload, uint32_t size) {
  size_t padded = ((size_t)size + 7) / 8 * 8, capacity = r->nodes_capacity;
  if (reserve((void **)&r->nodes, r->n_nodes, 1, &capacity, sizeof(node))) return 0;
  r->nodes_capacity = (uint32_t)capacity;
  if (reserve((void **)&r->bytes, r->n_bytes, padded, &r->bytes_capacity, 1)) return 0;
  if (hiprt_deps_begin(r->tracker)) return 0;
  node *n = r->nodes + r->n_nodes;
  *n = (node){kind, size, kernel, r->n_bytes, 0, 0};
  if (payload) memcpy(r->bytes + r->n_bytes, payload, size);
  return n;
}

/* Collect the edges of the node begun by add() and count it in. */
static int commit(hiprt_recorder *r, node *n) {
  const uint32_t *deps;
  uint32_t count;
  if (hiprt_deps_end(r->tracker, &deps, &count)) return HIPRT_E_MEMORY;
  if (reserve((void **)&r->deps, r->n_deps, count, &r->deps_capacity, sizeof *r->deps)) return HIPRT_E_MEMORY;
  if (count) memcpy(r->deps + r->n_deps, deps, count * sizeof *deps);
  n->deps = (uint32_t)r->n_deps;
  n->n_deps = count;
  r->n_deps += count;
  r->n_bytes += ((size_t)n->payload_size + 7) / 8 * 8;
  r->n_nodes++;
  uint32_t head[2] = {n->kind, count};
  hash(r, head, 2);
  hash(r, deps, count);
  if (n->kind == HIPRT_NODE_KERNEL) {
    hiprt_kernel_retain(n->kernel);
    hash(r, &n->kernel->function, sizeof n->kernel->function / 4);
    hash(r, r->bytes + n->payload, sizeof(hiprt_dims) / 4);
  }
  return 0;
}

int hiprt_recorder_kernel(hiprt_recorder *r, hiprt_kernel *kernel, const char *launch) {
  node *n = add(r, HIPRT_NODE_KERNEL, kernel, 0, hiprt_kernel_payload_size(kernel));
  if (!n) return HIPRT_E_MEMORY;
  hiprt_kernel_payload(kernel, launch, r->bytes + n->payload);
  const hiprt_range *ranges = hiprt_kernel_ranges(kernel, r->bytes + n->payload);
  for (uint32_t i = 0; i < kernel->n_buffers; i++)
    if (kernel->access[i] == 1 && hiprt_deps_access(r->tracker, ranges[i].start, ranges[i].end, 0))
      return HIPRT_E_MEMORY;
  /* Writes last: a node that reads and writes one range must see the earlier writer first. */
  for (uint32_t i = 0; i < kernel->n_buffers; i++)
    if (kernel->access[i] != 1 && hiprt_deps_access(r->tracker, ranges[i].start, ranges[i].end, 1))
      return HIPRT_E_MEMORY;
  return commit(r, n);
}

int hiprt_recorder_copy(hiprt_recorder *r, uint64_t dst, uint64_t src, uint64_t nbytes) {
  hiprt_copy_args args = {dst, src, nbytes};
  if (!nbytes) return 0;
  node *n = add(r, HIPRT_NODE_COPY, 0, &args, sizeof args);
  if (!n || hiprt_deps_access(r->tracker, src, src + nbytes, 0) ||
      hiprt_deps_access(r->tracker, dst, dst + nbytes, 1))
    return HIPRT_E_MEMORY;
  return commit(r, n);
}

int hiprt_recorder_fill(hiprt_recorder *r, uint64_t dst, uint32_t value, uint32_t width, uint64_t count) {
  hiprt_fill_args args = {dst, count, value, width};
  if (!count) return 0;
  node *n = add(r, HIPRT_NODE_FILL, 0, &args, sizeof args);
  if (!n || hiprt_deps_access(r->tracker, dst, dst + count * width, 1)) return HIPRT_E_MEMORY;
  return commit(r, n);
}

int hiprt_recorder_barrier(hiprt_recorder *r) {
  node *n = add(r, HIPRT_NODE_EMPTY, 0, 0, 0);
  if (!n || hiprt_deps_barrier(r->tracker)) return HIPRT_E_MEMORY;
  return commit(r, n);
}

uint32_t hiprt_recorder_size(const hiprt_recorder *r) { return r->n_nodes; }
uint64_t hiprt_recorder_edges(const hiprt_recorder *r) { return r->n_deps; }
uint64_t hiprt_recorder_key(const hiprt_recorder *r) { return r->key; }

int hiprt_recorder_node(const hiprt_recorder *r, uint32_t index, hiprt_node *out) {
  if (index >= r->n_nodes) return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_recorder_node", "no such node");
  static const char *const names[] = {"kernel", "copy", "fill", "empty"};
  const node *n = r->nodes + index;
  *out = (hiprt_node){n->kind,         n->kernel,           n->kernel ? n->kernel->name : names[n->kind],
                      r->bytes + n->payload, n->payload_size, r->deps + n->deps, n->n_deps};
  return 0;
}

int hiprt_recorder_same_key(const hiprt_recorder *a, const hiprt_recorder *b) {
  if (a->key != b->key || a->n_nodes != b->n_nodes || a->n_deps != b->n_deps) return 0;
  if (a->n_deps && memcmp(a->deps, b->deps, a->n_deps * sizeof *a->deps)) return 0;
  for (uint32_t i = 0; i < a->n_nodes; i++) {
    const node *x = a->nodes + i, *y = b->nodes + i;
    if (x->kind != y->kind || x->n_deps != y->n_deps) return 0;
    if (x->kind != HIPRT_NODE_KERNEL) continue;
    if (x->kernel->function != y->kernel->function) return 0;
    if (memcmp(a->bytes + x->payload, b->bytes + y->payload, sizeof(hiprt_dims))) return 0;
  }
  return 1;
}

int hiprt_recorder_differs(const hiprt_recorder *a, const hiprt_recorder *b, uint32_t i) {
  const node *x = a->nodes + i, *y = b->nodes + i;
  uint32_t size = x->payload_size;
  if (x->kind == HIPRT_NODE_KERNEL) size = (uint32_t)sizeof(hiprt_dims) + x->kernel->args_size;
  return size && memcmp(a->bytes + x->payload, b->bytes + y->payload, size) != 0;
}

uint32_t hiprt_recorder_changed(const hiprt_recorder *a, const hiprt_recorder *b, uint32_t *out_first) {
  uint32_t changed = 0;
  for (uint32_t i = 0; i < a->n_nodes; i++) {
    if (!hiprt_recorder_differs(a, b, i)) continue;
    if (!changed++) *out_first = i;
  }
  return changed;
}

static int run_node(const hiprt_recorder *r, const node *n, hiprt_stream *stream) {
  const char *payload = r->bytes + n->payload;
  if (n->kind == HIPRT_NODE_KERNEL) return hiprt_launch_payload(stream, n->kernel, payload);
  if (n->kind == HIPRT_NODE_COPY) {
    const hiprt_copy_args *c = (const hiprt_copy_args *)payload;
    return hiprt_copy(stream, c->dst, c->src, c->nbytes, 3);
  }
  if (n->kind == HIPRT_NODE_FILL) {
    const hiprt_fill_args *f = (const hiprt_fill_args *)payload;
    return hiprt_fill(stream, f->dst, f->value, f->width, f->count);
  }
  return 0;
}

int hiprt_recorder_run(const hiprt_recorder *r, hiprt_stream *stream) {
  if (stream->recorder)
    return hiprt_fail(HIPRT_E_RECORDING, "hiprt_recorder_run", "the stream is recording");
  for (uint32_t i = 0; i < r->n_nodes; i++) {
    int status = run_node(r, r->nodes + i, stream);
    if (status) return status;
  }
  return 0;
}
