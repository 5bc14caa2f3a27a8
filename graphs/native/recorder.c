#include "recorder.h"

#include <stdlib.h>

#include "capture.h"
#include "guards.h"
#include "recorder_nodes.h"
#include "status.h"

#define HASH_START 14695981039346656037u
/* A range at which no memory is. All work of other code writes it: libraries have workspaces of which nobody tells. */
#define FOREIGN_START (UINT64_MAX - 8)
#define FOREIGN_END UINT64_MAX
#define NOWHERE UINT32_MAX

static int grow(void **data, size_t count, size_t more, size_t *capacity, size_t size) {
  size_t wanted = *capacity ? *capacity * 2 : 256;
  while (wanted < count + more) wanted *= 2;
  void *grown = realloc(*data, wanted * size);
  if (!grown) return hiprt_fail(HIPRT_E_MEMORY, "hiprt_recorder", 0);
  *data = grown;
  *capacity = wanted;
  return 0;
}

/* Make room for `more` items behind `count` items in an array that grows. */
static inline int reserve(void **data, size_t count, size_t more, size_t *capacity, size_t size) {
  return count + more <= *capacity ? 0 : grow(data, count, more, capacity, size);
}

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
  r->key = HASH_START;
  *out_recorder = r;
  return 0;
}

void hiprt_recorder_retain(hiprt_recorder *r) { atomic_fetch_add_explicit(&r->references, 1, memory_order_relaxed); }

uint32_t hiprt_recorder_references(const hiprt_recorder *r) {
  return atomic_load_explicit(&r->references, memory_order_acquire);
}

/* Note that arguments are no longer what a table of pointers says. */
static void forget_pointers(hiprt_recorder *r) {
  if (!r->pointers) return;
  hiprt_pointers_release(r->pointers);
  free(r->starts);
  r->pointers = 0;
  r->starts = 0;
}

/* Note that arguments are what a table of pointers says, where memory begins at `starts`. */
static int keep_pointers(hiprt_recorder *r, hiprt_pointers *pointers, const uint64_t *starts) {
  const size_t count = hiprt_pointers_memories(pointers);
  uint64_t *kept = calloc(count + 1, sizeof *kept);
  if (!kept) return hiprt_fail(HIPRT_E_MEMORY, "hiprt_recorder_point", 0);
  memcpy(kept, starts, count * sizeof *kept);
  forget_pointers(r);
  r->pointers = hiprt_pointers_retain(pointers);
  r->starts = kept;
  return 0;
}

void hiprt_recorder_release(hiprt_recorder *r) {
  if (!r || atomic_fetch_sub_explicit(&r->references, 1, memory_order_acq_rel) != 1) return;
  for (uint32_t i = 0; r->n_foreign && i < r->n_nodes; i++) hiprt_captured_release(r->nodes[i].captured);
  for (size_t i = 0; i < r->n_kernels; i++) hiprt_kernel_release(r->kernels[i]);
  for (size_t i = 0; i < r->n_touches; i++) hiprt_uses_release(r->touches[i].uses);
  forget_pointers(r);
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

/* FNV-1a over words: a hash only finds candidates, contents decide (G3). */
static void hash(hiprt_recorder *r, uint64_t word) { r->key = (r->key ^ word) * 1099511628211u; }

/* Hold a kernel as long as the recorder lives. */
static int hold_kernel(hiprt_recorder *r, hiprt_kernel *kernel) {
  if (!kernel || atomic_load_explicit(&kernel->recorder, memory_order_relaxed) == r->serial) return 0;
  if (reserve((void **)&r->kernels, r->n_kernels, 1, &r->kernels_capacity, sizeof *r->kernels)) return HIPRT_E_MEMORY;
  hiprt_kernel_retain(kernel);
  r->kernels[r->n_kernels++] = kernel;
  atomic_store_explicit(&kernel->recorder, r->serial, memory_order_relaxed);
  return 0;
}

void hiprt_recorder_listen(hiprt_recorder *r, uint64_t handle) { r->captured = (hipStream_t)(uintptr_t)handle; }

void hiprt_recorder_limit(hiprt_recorder *r, uint32_t nodes, uint64_t bytes) {
  r->max_nodes = nodes;
  r->max_bytes = bytes;
}

void hiprt_recorder_watch(hiprt_recorder *r, void (*added)(void *owner), void *owner) {
  r->added = added;
  r->owner = owner;
}

int hiprt_recorder_is_broken(const hiprt_recorder *r) { return r->is_broken; }

/* Return the bytes of distinct memory that the nodes declare; where others are followed, it is at most as many. */
static uint64_t declared_bytes(const hiprt_recorder *r) {
  return r->tracked == r->n_nodes ? hiprt_deps_bytes(r->tracker) : r->declared;
}

int hiprt_recorder_is_full(const hiprt_recorder *r) {
  if (!r->n_nodes) return 0;
  return (r->max_nodes && r->n_nodes >= r->max_nodes) || (r->max_bytes && declared_bytes(r) >= r->max_bytes);
}

/* Return a hash of a node's arguments and of its place. Payloads are multiples of 8 bytes long. */
static uint64_t hash_of(const hiprt_recorder *r, const node *n) {
  uint64_t found = HASH_START + (uint64_t)(n - r->nodes) * 0x9e3779b97f4a7c15u;
  size_t start, size = arguments_of(n, &start);
  for (size_t i = 0; i < size; i += 8) {
    uint64_t word;
    memcpy(&word, r->bytes + start + i, 8);
    found = (found ^ word) * 1099511628211u;
    found ^= found >> 29;
  }
  return found;
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
  size_t padded = ((size_t)size + 7) / 8 * 8, capacity = r->nodes_capacity;
  if (reserve((void **)&r->nodes, r->n_nodes, 1, &capacity, sizeof(node))) return 0;
  r->nodes_capacity = (uint32_t)capacity;
  if (reserve((void **)&r->bytes, r->n_bytes, padded, &r->bytes_capacity, 1)) return 0;
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
  if (reserve((void **)&r->deps, r->n_deps, count, &r->deps_capacity, sizeof *r->deps)) return HIPRT_E_MEMORY;
  if (hold_kernel(r, n->kernel)) return HIPRT_E_MEMORY;
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
  forget_pointers(r);
  return 0;
}

/* Whether a node works on something that it did not name. */
static int is_barrier(const node *n) {
  if (n->captured) return n->captured->is_barrier;
  return n->kind == HIPRT_NODE_EMPTY || (n->kind == HIPRT_NODE_KERNEL && !n->kernel->n_written);
}

/* Declare what all work of one capture touches. */
static int declare_captured(hiprt_recorder *r, const hiprt_captured *c) {
  for (int write = 0; write < 2; write++)
    for (uint32_t i = 0; i < c->n_ranges; i++)
      if ((c->access[i] != HIPRT_READ) == write &&
          hiprt_deps_access(r->tracker, c->ranges[i].start, c->ranges[i].end, write))
        return HIPRT_E_MEMORY;
  return hiprt_deps_access(r->tracker, FOREIGN_START, FOREIGN_END, 1);
}

/* Declare what a node's payload touches. Reads come first: a node that reads and writes a range waits for its
 * writer. */
static int declare(hiprt_recorder *r, const node *n) {
  const char *payload = r->bytes + n->payload;
  if (is_barrier(n)) return hiprt_deps_barrier(r->tracker);
  if (n->captured) return declare_captured(r, n->captured);
  if (n->kind == HIPRT_NODE_COPY) {
    const hiprt_copy_args *c = (const hiprt_copy_args *)payload;
    int status = hiprt_deps_access(r->tracker, c->src, c->src + c->nbytes, 0);
    return status ? status : hiprt_deps_access(r->tracker, c->dst, c->dst + c->nbytes, 1);
  }
  if (n->kind == HIPRT_NODE_FILL) {
    const hiprt_fill_args *f = (const hiprt_fill_args *)payload;
    return hiprt_deps_access(r->tracker, f->dst, f->dst + f->count * f->width, 1);
  }
  const hiprt_range *ranges = hiprt_kernel_ranges(n->kernel, payload);
  for (int write = 0; write < 2; write++)
    for (uint32_t i = 0; i < n->kernel->n_buffers; i++)
      if ((n->kernel->access[i] != HIPRT_READ) == write &&
          hiprt_deps_access(r->tracker, ranges[i].start, ranges[i].end, write))
        return HIPRT_E_MEMORY;
  return 0;
}

/* Whether a node waits itself, and no earlier node writes what it reads before that. */
static uint32_t may_overlap(const hiprt_recorder *r, const node *n) {
  if (n->kind != HIPRT_NODE_KERNEL || !n->kernel->waits_itself) return 0;
  const hiprt_range *ranges = hiprt_kernel_ranges(n->kernel, r->bytes + n->payload);
  for (uint32_t i = 0; i < n->kernel->n_buffers; i++)
    if ((n->kernel->ahead >> i & 1) && hiprt_deps_is_written(r->tracker, ranges[i].start, ranges[i].end)) return 0;
  return 1;
}

/* Make room for as much as another recorder has. */
static int reserve_all(hiprt_recorder *r, const hiprt_recorder *like) {
  size_t capacity = r->nodes_capacity;
  if (reserve((void **)&r->nodes, 0, like->n_nodes, &capacity, sizeof *r->nodes)) return HIPRT_E_MEMORY;
  r->nodes_capacity = (uint32_t)capacity;
  if (reserve((void **)&r->bytes, 0, like->n_bytes, &r->bytes_capacity, 1)) return HIPRT_E_MEMORY;
  return reserve((void **)&r->deps, 0, like->n_deps, &r->deps_capacity, sizeof *r->deps);
}

void hiprt_recorder_follow(hiprt_recorder *r, hiprt_recorder *like) {
  if (r->n_nodes || r->like || like->is_moved || like->edges != r->edges) return;
  if (r->max_bytes && declared_bytes(like) >= r->max_bytes) return;
  if (reserve_all(r, like)) return;
  hiprt_recorder_retain(like);
  r->like = like;
  r->declared = declared_bytes(like);
  r->wired = hiprt_deps_retain(like->tracked == like->n_nodes ? like->tracker : like->wired);
}

void hiprt_recorder_end(hiprt_recorder *r) {
  if (r->like && r->n_nodes == r->like->n_nodes) r->alike = r->like->alike;
  hiprt_recorder_release(r->like);
  r->like = 0;
}

/* Whether a read of one range has the edges that a read of another one had in the recorder that is followed: no node writes
 * either. What is written is the same in both recorders. */
static int reads_alike(hiprt_recorder *r, hiprt_range was, hiprt_range is) {
  if (!r->wired || hiprt_deps_has_writer(r->wired, was.start, was.end) || hiprt_deps_has_writer(r->wired, is.start, is.end))
    return 0;
  const uint64_t declared = r->declared + (is.end - is.start);
  if (r->max_bytes && declared >= r->max_bytes) return 0;
  r->declared = declared;
  return 1;
}

/* Whether a kernel's buffers are those that they were, or others that are read and have the same edges. */
static int has_same_edges(hiprt_recorder *r, const hiprt_kernel *kernel, const char *was, const char *is) {
  const size_t size = kernel->n_buffers * sizeof(hiprt_range);
  const hiprt_range *before = hiprt_kernel_ranges(kernel, was), *now = hiprt_kernel_ranges(kernel, is);
  if (are_same((const char *)before, (const char *)now, size)) return 1;
  for (uint32_t i = 0; i < kernel->n_buffers; i++) {
    if (before[i].start == now[i].start && before[i].end == now[i].end) continue;
    if (kernel->access[i] != HIPRT_READ || !reads_alike(r, before[i], now[i])) return 0;
  }
  return 1;
}

/* Whether the node that add() began touches what the node in its place does in the recorder that is followed, in the same
 * way, but for what is only read in both: its edges are the same then, since those of all nodes before it are. */
static int repeats(hiprt_recorder *r, const node *n) {
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
    const hiprt_range before = {a->src, a->src + a->nbytes}, now = {b->src, b->src + b->nbytes};
    return a->src == b->src || reads_alike(r, before, now);
  }
  if (n->kind != HIPRT_NODE_FILL) return n->kind == HIPRT_NODE_EMPTY;
  const hiprt_fill_args *a = (const hiprt_fill_args *)was, *b = (const hiprt_fill_args *)is;
  return a->dst == b->dst && a->count == b->count && a->width == b->width;
}

/* Let the tracker know one more node, and find its edges; `begun`, unless NULL, is a node whose overlap is asked for. */
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
  hiprt_recorder_release(r->like);
  r->like = 0;
  hiprt_deps_release(r->wired);
  r->wired = 0;
  while (r->tracked < r->n_nodes)
    if (track(r, r->nodes + r->tracked, 0, &deps, &count)) return HIPRT_E_MEMORY;
  return track(r, n, n, &deps, &count) ? HIPRT_E_MEMORY : append(r, n, deps, count, 0);
}

static int add_new(hiprt_recorder *r, uint32_t kind, hiprt_kernel *kernel, const void *payload, uint32_t size) {
  if (hiprt_recorder_is_full(r)) return hiprt_fail(HIPRT_E_FULL, "hiprt_recorder", "the recording has reached its bound");
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
                                uint32_t n_deps) {
  node *n = add(r, kind, kernel, payload, size);
  if (!n) return HIPRT_E_MEMORY;
  n->captured = captured;
  n->source = source;
  int status = deps ? append(r, n, deps, n_deps, 0) : commit(r, n);
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

int hiprt_recorder_touch(hiprt_recorder *r, hiprt_uses *uses, uint32_t access) {
  const uint32_t place = atomic_load_explicit(&uses->place, memory_order_relaxed);
  if (atomic_load_explicit(&uses->recorder, memory_order_relaxed) == r->serial && place < r->n_touches &&
      r->touches[place].uses == uses) {
    r->touches[place].access |= access;
    return 0;
  }
  if (reserve((void **)&r->touches, r->n_touches, 1, &r->touches_capacity, sizeof *r->touches)) return HIPRT_E_MEMORY;
  hiprt_uses_retain(uses);
  atomic_store_explicit(&uses->place, (uint32_t)r->n_touches, memory_order_relaxed);
  atomic_store_explicit(&uses->recorder, r->serial, memory_order_relaxed);
  r->touches[r->n_touches++] = (hiprt_touch){uses, access};
  return 0;
}

static int take_touch(void *r, hiprt_uses *uses, uint32_t access) { return hiprt_recorder_touch(r, uses, access); }

int hiprt_recorder_set_apart(hiprt_recorder *r, hiprt_uses *uses, int is_shared) {
  uint32_t place = 0;
  while (place < r->n_touches && r->touches[place].uses != uses) place++;
  for (uint32_t i = 0; i < r->n_arguments; i++) is_shared |= r->arguments[i] == place;
  if (reserve((void **)&r->arguments, r->n_arguments, 1, &r->arguments_capacity, sizeof *r->arguments))
    return HIPRT_E_MEMORY;
  if (place == r->n_touches) {
    place = NOWHERE;
  } else if (is_shared) {
    if (reserve((void **)&r->touches, r->n_touches, 1, &r->touches_capacity, sizeof *r->touches)) return HIPRT_E_MEMORY;
    hiprt_uses_retain(uses);
    r->touches[r->n_touches] = r->touches[place];
    place = (uint32_t)r->n_touches++;
  }
  r->arguments[r->n_arguments++] = place;
  return 0;
}

uint32_t hiprt_recorder_apart(const hiprt_recorder *r) { return (uint32_t)r->n_arguments; }

void hiprt_recorder_retouch(hiprt_recorder *r, uint32_t argument, hiprt_uses *uses) {
  if (r->arguments[argument] == NOWHERE) return;
  hiprt_uses **place = &r->touches[r->arguments[argument]].uses, *before = *place;
  hiprt_uses_retain(uses);
  *place = uses;
  hiprt_uses_release(before);
}

const hiprt_touch *hiprt_recorder_touches(const hiprt_recorder *r, uint32_t *out_count) {
  *out_count = (uint32_t)r->n_touches;
  return r->touches;
}

int hiprt_recorder_order(const hiprt_recorder *r, hiprt_stream *stream) {
  if (!hiprt_order_is_needed(stream)) return 0;
  int status = hiprt_order_begin(stream, r->touches, (uint32_t)r->n_touches);
  if (!status) hiprt_order_end(stream, r->touches, (uint32_t)r->n_touches);
  return status;
}

int hiprt_recorder_start(hiprt_recorder *r, hiprt_stream *stream, int is_shared) {
  static const hiprt_recorder_calls calls = {take_launch, take_copy, take_fill, take_barrier, take_touch};
  hiprt_order_expect(stream);
  return hiprt_stream_start(stream, &calls, r, r->serial, is_shared);
}

/* Copy all nodes into an empty recorder with their edges, although memory may have come to be shared since they were
 * made. */
static int copy_all(const hiprt_recorder *from, hiprt_recorder *into) {
  if (reserve_all(into, from)) return HIPRT_E_MEMORY;
  if (from->n_nodes) memcpy(into->nodes, from->nodes, from->n_nodes * sizeof *into->nodes);
  if (from->n_bytes) memcpy(into->bytes, from->bytes, from->n_bytes);
  if (from->n_deps) memcpy(into->deps, from->deps, from->n_deps * sizeof *into->deps);
  for (size_t i = 0; i < from->n_kernels; i++)
    if (hold_kernel(into, from->kernels[i])) return HIPRT_E_MEMORY;
  for (uint32_t i = 0; i < from->n_nodes; i++) hiprt_captured_retain(from->nodes[i].captured);
  into->n_nodes = from->n_nodes;
  into->n_bytes = from->n_bytes;
  into->n_deps = from->n_deps;
  into->n_foreign = from->n_foreign;
  into->key = from->key;
  into->alike = from->alike;
  into->declared = declared_bytes(from);
  into->is_moved = from->is_moved;
  return from->pointers ? keep_pointers(into, from->pointers, from->starts) : 0;
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

int hiprt_recorder_is_in_use(const hiprt_recorder *r) {
  const hiprt_captured *captured = r->n_foreign ? r->nodes->captured : 0;
  return hiprt_recorder_references(r) > 1 || (captured && atomic_load(&captured->references) > r->n_foreign);
}

int hiprt_recorder_captured_on(const hiprt_recorder *r) {
  return r->n_nodes && r->n_foreign == r->n_nodes ? r->nodes->captured->device : -1;
}

uint32_t hiprt_recorder_users(const hiprt_recorder *r, uint64_t start, uint64_t end, uint32_t *out_nodes) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < r->n_nodes; i++)
    if (hiprt_recorder_moved(r, i, 1, &(hiprt_move){start, end, start}, 0)) out_nodes[count++] = i;
  return count;
}

uint32_t hiprt_recorder_moved(const hiprt_recorder *r, uint32_t index, uint32_t n_moves, const hiprt_move *moves,
                              char *out_payload) {
  const node *n = r->nodes + index;
  const char *payload = r->bytes + n->payload;
  if (n->kind == HIPRT_NODE_KERNEL) return hiprt_kernel_moved(n->kernel, payload, n_moves, moves, out_payload);
  hiprt_copy_args args = {0};
  uint32_t addresses = n->kind == HIPRT_NODE_COPY ? 2 : n->kind == HIPRT_NODE_FILL ? 1 : 0;
  if (addresses) memcpy(&args, payload, n->payload_size);
  uint32_t moved = addresses > 0 && hiprt_move_address(&args.dst, n_moves, moves);
  moved += addresses > 1 && hiprt_move_address(&args.src, n_moves, moves);
  if (out_payload && addresses) memcpy(out_payload, &args, n->payload_size);
  return moved;
}

void hiprt_recorder_relocate(hiprt_recorder *r, uint32_t n_moves, const hiprt_move *moves) {
  forget_pointers(r);
  r->is_moved = 1;
  for (uint32_t i = 0; i < r->n_nodes; i++) hiprt_recorder_moved(r, i, n_moves, moves, r->bytes + r->nodes[i].payload);
}

int hiprt_recorder_point(hiprt_recorder *r, hiprt_pointers *pointers, const uint64_t *starts) {
  r->is_moved = 1;
  const int is_known = r->pointers == pointers;
  const int status = is_known ? 0 : keep_pointers(r, pointers, starts);
  if (status) return status;
  for (uint32_t m = 0; m < hiprt_pointers_memories(pointers); m++) {
    if (is_known && r->starts[m] == starts[m]) continue;
    uint32_t count;
    const hiprt_pointer *words = hiprt_pointers_into(pointers, m, &count);
    for (uint32_t i = 0; i < count; i++) {
      const uint64_t address = starts[m] + words[i].delta;
      memcpy(r->bytes + r->nodes[words[i].node].payload + words[i].offset, &address, sizeof address);
    }
    r->starts[m] = starts[m];
  }
  return 0;
}

void hiprt_recorder_set_payload(hiprt_recorder *r, uint32_t index, const void *payload) {
  const node *n = r->nodes + index;
  forget_pointers(r);
  r->is_moved = 1;
  memcpy(r->bytes + n->payload, payload, n->payload_size);
}

char *hiprt_recorder_payload(hiprt_recorder *r, uint32_t index) {
  forget_pointers(r); /* it is about to be changed */
  r->is_moved = 1;
  return r->bytes + r->nodes[index].payload;
}

uint32_t hiprt_recorder_size(const hiprt_recorder *r) { return r->n_nodes; }
uint64_t hiprt_recorder_edges(const hiprt_recorder *r) { return r->n_deps; }
uint32_t hiprt_recorder_foreign(const hiprt_recorder *r) { return r->n_foreign; }
uint64_t hiprt_recorder_bytes(const hiprt_recorder *r) { return r->n_bytes; }
uint64_t hiprt_recorder_key(const hiprt_recorder *r) { return hiprt_guards_off & HIPRT_GUARD_KEY ? r->n_nodes : r->key; }

uint64_t hiprt_recorder_arguments(const hiprt_recorder *r) {
  uint64_t found = HASH_START;
  for (uint32_t i = 0; i < r->n_nodes; i++) found += hash_of(r, r->nodes + i);
  return found;
}

static void list_ranges(const node *n, hiprt_node *out) {
  static const uint8_t read_then_write[] = {HIPRT_READ, HIPRT_WRITE}, write[] = {HIPRT_WRITE};
  out->ranges = out->own;
  if (n->captured) {
    out->ranges = n->captured->ranges;
    out->access = n->captured->access;
    out->n_ranges = n->captured->n_ranges;
  } else if (n->kind == HIPRT_NODE_KERNEL) {
    out->ranges = hiprt_kernel_ranges(n->kernel, out->payload);
    out->access = n->kernel->access;
    out->n_ranges = n->kernel->n_buffers;
    out->addresses = n->kernel->addresses;
    out->n_addresses = n->kernel->n_addresses;
  } else if (n->kind == HIPRT_NODE_COPY) {
    const hiprt_copy_args *c = (const hiprt_copy_args *)out->payload;
    out->own[0] = (hiprt_range){c->src, c->src + c->nbytes};
    out->own[1] = (hiprt_range){c->dst, c->dst + c->nbytes};
    out->access = read_then_write;
    out->n_ranges = 2;
  } else if (n->kind == HIPRT_NODE_FILL) {
    const hiprt_fill_args *f = (const hiprt_fill_args *)out->payload;
    out->own[0] = (hiprt_range){f->dst, f->dst + f->count * f->width};
    out->access = write;
    out->n_ranges = 1;
  }
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
  out->may_overlap = n->may_overlap;
  out->is_barrier = (uint32_t)is_barrier(n);
  out->source = n->source;
  list_ranges(n, out);
  return 0;
}

const hiprt_pointers *hiprt_recorder_pointers(const hiprt_recorder *r, const uint64_t **out_starts) {
  *out_starts = r->starts;
  return r->pointers;
}
