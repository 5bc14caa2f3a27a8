#include "recording.h"

#include "addresses.h"
#include "capture.h"
#include "follow.h"
#include "recorder_nodes.h"
#include "repeated_nodes.h"
#include "status.h"
#include "touches.h"

/* A range at which no memory is. All work of other code writes it, because libraries have workspaces that they do not tell
 * of. */
#define FOREIGN_START (UINT64_MAX - 8)
#define FOREIGN_END UINT64_MAX

/* FNV-1a over words: a hash only finds candidates, contents decide (G3). */
static void hash(hiprt_recorder *r, uint64_t word) { r->key = (r->key ^ word) * 1099511628211u; }

static int is_held(const hiprt_recorder *r, const hiprt_kernel *kernel) {
  return !kernel || atomic_load_explicit(&kernel->recorder, memory_order_relaxed) == r->serial;
}

/* Hold a kernel as long as the recorder lives. */
static int hold_kernel(hiprt_recorder *r, hiprt_kernel *kernel) {
  if (hiprt_room((void **)&r->kernels, r->n_kernels, 1, &r->kernels_capacity, sizeof *r->kernels, HIPRT_RECORDER))
    return HIPRT_E_MEMORY;
  hiprt_kernel_retain(kernel);
  r->kernels[r->n_kernels++] = kernel;
  atomic_store_explicit(&kernel->recorder, r->serial, memory_order_relaxed);
  return 0;
}

/* Copy a payload, whose size is a multiple of 8, word by word. A call of memcpy reads many bytes at once, and such a read
 * waits until the launcher's stores of 8 bytes have left the processor's store buffer, which takes 8 ns a node. */
static void copy_words(char *to, const char *from, size_t size) {
  for (size_t i = 0; i < size; i += 8) {
    memcpy(to + i, from + i, 8);
    __asm__ volatile(""); /* it keeps the compiler from making one memcpy of the loop */
  }
}

/* Begin a node and return it; NULL, with the failure noted, if there is no memory for it. */
static node *add(hiprt_recorder *r, uint32_t kind, hiprt_kernel *kernel, const void *payload, uint32_t size) {
  const size_t padded = ((size_t)size + 7) / 8 * 8;
  if (hiprt_room((void **)&r->nodes, r->n_nodes, 1, &r->nodes_capacity, sizeof(node), HIPRT_RECORDER)) return 0;
  if (hiprt_room((void **)&r->bytes, r->n_bytes, padded, &r->bytes_capacity, 1, HIPRT_RECORDER)) return 0;
  node *n = r->nodes + r->n_nodes;
  *n = (node){.kind = kind, .payload_size = size, .kernel = kernel, .payload = r->n_bytes};
  copy_words(r->bytes + r->n_bytes, payload, size);
  return n;
}

/* Take a node's function, dimensions and edges into the topology key. */
static void hash_node(hiprt_recorder *r, const node *n, const uint32_t *deps, uint32_t count) {
  hash(r, (uint64_t)count << 32 | n->may_overlap << 8 | n->kind);
  for (uint32_t i = 0; i < count; i++) hash(r, deps[i]);
  if (!is_launch(n)) return;
  uint64_t dims[sizeof(hiprt_dims) / sizeof(uint64_t)];
  memcpy(dims, r->bytes + n->payload, sizeof dims);
  hash(r, function_of(r, n));
  for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) hash(r, dims[i]);
}

/* Count the node that add() began, with these edges. known_key: the key up to it, or NULL. */
static int append(hiprt_recorder *r, node *n, const uint32_t *deps, uint32_t count, const uint64_t *known_key) {
  if (hiprt_room((void **)&r->deps, r->n_deps, count, &r->deps_capacity, sizeof *r->deps, HIPRT_RECORDER))
    return HIPRT_E_MEMORY;
  if (!is_held(r, n->kernel) && hold_kernel(r, n->kernel)) return HIPRT_E_MEMORY;
  if (count == 1)
    r->deps[r->n_deps] = *deps;
  else if (count)
    memcpy(r->deps + r->n_deps, deps, count * sizeof *deps);
  n->deps = (uint32_t)r->n_deps;
  n->n_deps = count;
  r->n_deps += count;
  r->n_bytes += ((size_t)n->payload_size + 7) / 8 * 8;
  r->n_nodes++;
  if (known_key) {
    r->key = *known_key;
  } else {
    hash_node(r, n, deps, count);
    r->alike = r->serial;
  }
  n->key = r->key;
  r->n_foreign += hiprt_captured_retain(n->captured) != 0;
  if (r->pointers) hiprt_recorder_forget_pointers(r);
  return 0;
}

/* Declare what a node touches. Reads come first: a node that reads and writes a range waits for its writer. */
static int declare(hiprt_recorder *r, const node *n) {
  hiprt_range own[2];
  const hiprt_range *ranges;
  const uint8_t *access;
  if (is_barrier(n)) return hiprt_deps_barrier(r->tracker);
  const uint32_t count = ranges_of(r, n, own, &ranges, &access);
  for (int write = 0; write < 2; write++)
    for (uint32_t i = 0; i < count; i++)
      if ((access[i] != HIPRT_READ) == write && hiprt_deps_access(r->tracker, ranges[i].start, ranges[i].end, write))
        return HIPRT_E_MEMORY;
  return n->captured ? hiprt_deps_access(r->tracker, FOREIGN_START, FOREIGN_END, 1) : 0;
}

/* Whether a kernel waits for earlier nodes by itself, and none of them writes what it reads before that. */
static uint32_t may_overlap(const hiprt_recorder *r, const node *n) {
  if (n->kind != HIPRT_NODE_KERNEL || !n->kernel->waits_itself) return 0;
  const hiprt_range *ranges = hiprt_kernel_ranges(n->kernel, r->bytes + n->payload);
  for (uint32_t i = 0; i < n->kernel->n_buffers; i++)
    if ((n->kernel->ahead >> i & 1) && hiprt_deps_is_written(r->tracker, ranges[i].start, ranges[i].end)) return 0;
  return 1;
}

/* Let the tracker know one more node, and find its edges. `begun`, unless NULL, is a node whose overlap is asked for. */
static int track(hiprt_recorder *r, const node *n, node *begun, const uint32_t **out_deps, uint32_t *out_count) {
  if (hiprt_deps_begin(r->tracker)) return HIPRT_E_MEMORY;
  if (begun) begun->may_overlap = may_overlap(r, n);
  if (declare(r, n) || hiprt_deps_end(r->tracker, out_deps, out_count)) return HIPRT_E_MEMORY;
  r->tracked++;
  return 0;
}

/* Count the node that add() began, with the edges that follow from what it touches. */
static int commit(hiprt_recorder *r, node *n) {
  const uint32_t *deps;
  uint32_t count;
  if (r->like && repeats(r, n)) {
    const node *known = r->like->nodes + r->n_nodes;
    n->may_overlap = known->may_overlap;
    return append(r, n, r->like->deps + known->deps, known->n_deps, &known->key);
  }
  if (r->like || r->wired) hiprt_recorder_leave(r);
  while (r->tracked < r->n_nodes)
    if (track(r, r->nodes + r->tracked, 0, &deps, &count)) return HIPRT_E_MEMORY;
  return track(r, n, n, &deps, &count) ? HIPRT_E_MEMORY : append(r, n, deps, count, 0);
}

/* Record one more node of our own. */
static int add_new(hiprt_recorder *r, uint32_t kind, hiprt_kernel *kernel, const void *payload, uint32_t size) {
  if (is_full(r)) return hiprt_fail(HIPRT_E_FULL, "hiprt_recorder", "the recording has reached its bound");
  if (r->captured && hiprt_capture_has_work(r->captured))
    return hiprt_fail(HIPRT_E_CAPTURED, "hiprt_recorder", "other code put work on the stream before this");
  if (r->is_broken) return hiprt_fail(HIPRT_E_MEMORY, "hiprt_recorder", "a node before this one could not be recorded");
  node *n = add(r, kind, kernel, payload, size);
  int status = n ? commit(r, n) : HIPRT_E_MEMORY;
  r->is_broken = status == HIPRT_E_MEMORY;
  if (!status && r->added) r->added(r->owner);
  return status;
}

int hiprt_recorder_add_captured(hiprt_recorder *r, uint32_t kind, hiprt_kernel *kernel, const void *payload,
                                uint32_t size, hiprt_captured *captured, hipGraphNode_t source, const uint32_t *deps,
                                uint32_t n_deps, int overlaps) {
  node *n = add(r, kind, kernel, payload, size);
  int status = n ? 0 : HIPRT_E_MEMORY;
  if (n) {
    n->captured = captured;
    n->source = source;
    n->may_overlap = overlaps != 0;
    status = deps ? append(r, n, deps, n_deps, 0) : commit(r, n);
  }
  r->is_broken |= status == HIPRT_E_MEMORY;
  if (!status && r->added) r->added(r->owner);
  return status;
}

static int take_launch(void *r, hiprt_kernel *kernel, const char *payload) {
  return add_new(r, HIPRT_NODE_KERNEL, kernel, payload, kernel->payload_size);
}

static int take_copy(void *r, uint64_t dst, uint64_t src, uint64_t nbytes) {
  hiprt_copy_args args = {dst, src, nbytes};
  return nbytes ? add_new(r, HIPRT_NODE_COPY, 0, &args, sizeof args) : 0;
}

static int take_fill(void *r, uint64_t dst, uint32_t value, uint32_t width, uint64_t count) {
  hiprt_fill_args args = {dst, count, value, width};
  return count ? add_new(r, HIPRT_NODE_FILL, 0, &args, sizeof args) : 0;
}

static int take_barrier(void *r) { return add_new(r, HIPRT_NODE_EMPTY, 0, 0, 0); }

static int take_touch(void *r, hiprt_uses *uses, uint32_t access) { return hiprt_recorder_touch(r, uses, access); }

int hiprt_recorder_start(hiprt_recorder *r, hiprt_stream *stream, int is_shared) {
  static const hiprt_recorder_calls calls = {take_launch, take_copy, take_fill, take_barrier, take_touch};
  hiprt_order_expect(stream);
  return hiprt_stream_start(stream, &calls, r, r->serial, is_shared);
}

/* Copy all nodes into an empty recorder with their edges, although memory may have come to be shared since they were
 * made. */
static int copy_all(const hiprt_recorder *from, hiprt_recorder *into) {
  if (hiprt_recorder_reserve(into, from)) return HIPRT_E_MEMORY;
  if (from->n_nodes) memcpy(into->nodes, from->nodes, from->n_nodes * sizeof *into->nodes);
  if (from->n_bytes) memcpy(into->bytes, from->bytes, from->n_bytes);
  if (from->n_deps) memcpy(into->deps, from->deps, from->n_deps * sizeof *into->deps);
  for (size_t i = 0; i < from->n_kernels; i++)
    if (!is_held(into, from->kernels[i]) && hold_kernel(into, from->kernels[i])) return HIPRT_E_MEMORY;
  for (uint32_t i = 0; i < from->n_nodes; i++) hiprt_captured_retain(from->nodes[i].captured);
  into->n_nodes = from->n_nodes;
  into->n_bytes = from->n_bytes;
  into->n_deps = from->n_deps;
  into->n_foreign = from->n_foreign;
  into->key = from->key;
  into->alike = from->alike;
  into->declared = declared_bytes(from);
  into->is_moved = from->is_moved;
  return from->pointers ? hiprt_recorder_keep_pointers(into, from->pointers, from->starts) : 0;
}

int hiprt_recorder_slice(const hiprt_recorder *from, uint32_t begin, uint32_t end, hiprt_recorder *into) {
  if (begin > end || end > from->n_nodes)
    return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_recorder_slice", "no such nodes");
  const int is_whole = begin == 0 && end == from->n_nodes && into->n_nodes == 0;
  int status = is_whole ? copy_all(from, into) : 0;
  for (uint32_t i = begin; !is_whole && !status && i < end; i++) {
    const node *old = from->nodes + i;
    node *n = add(into, old->kind, old->kernel, from->bytes + old->payload, old->payload_size);
    if (!n) return HIPRT_E_MEMORY;
    n->may_overlap = old->may_overlap;
    n->captured = old->captured;
    n->source = old->source;
    status = commit(into, n);
  }
  for (size_t i = 0; !status && i < from->n_touches; i++)
    status = hiprt_recorder_touch(into, from->touches[i].uses, from->touches[i].access);
  return status;
}

int hiprt_recorder_copy(const hiprt_recorder *from, hiprt_recorder **out_recorder) {
  int status = hiprt_recorder_create(HIPRT_EDGES_DATA, out_recorder);
  if (!status) status = hiprt_recorder_slice(from, 0, from->n_nodes, *out_recorder);
  if (!status) return 0;
  hiprt_recorder_release(*out_recorder);
  *out_recorder = 0;
  return status;
}

