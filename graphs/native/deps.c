#include "deps.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "status.h"

#define NONE UINT32_MAX

/* A segment of memory, in a treap that is ordered by start; segments never overlap. Their readers form lists that share
 * cells and never change. */
typedef struct {
  uint64_t start, end;
  uint32_t left, right, priority;
  uint32_t writer;  /* the last node that wrote it, or NONE */
  uint32_t readers; /* the cell of the last node that has read it since, or NONE */
} segment;

typedef struct {
  uint32_t node, next;
} reader;

typedef struct {
  uint32_t chain;               /* NONE if every chain was taken */
  uint32_t position;            /* on its chain, from 1 */
  uint32_t after[HIPRT_CHAINS]; /* for each chain, the last position the node is ordered after, or its own */
} order;

typedef struct {
  void *data;
  uint32_t count, capacity;
} array;

struct hiprt_deps {
  atomic_uint references;
  array segments; /* of segment */
  array readers;  /* of reader */
  array orders;   /* of order, one for each node */
  array pending;  /* of uint32_t, the dependencies of the current node */
  uint32_t root, free_segment, random;
  uint32_t tails[HIPRT_CHAINS]; /* last node of each chain, or NONE */
  uint32_t barrier;             /* last barrier node, or NONE */
  uint32_t edges;               /* hiprt_edges */
  uint64_t bytes;               /* covered by segments */
  int is_barrier;
};

static void *push(array *a, size_t size) {
  if (a->count == a->capacity) {
    uint32_t capacity = a->capacity ? a->capacity * 2 : 64;
    void *data = realloc(a->data, size * capacity);
    if (!data) {
      hiprt_fail(HIPRT_E_MEMORY, "hiprt_deps", 0);
      return 0;
    }
    a->data = data;
    a->capacity = capacity;
  }
  return (char *)a->data + size * a->count++;
}

static segment *segments(const hiprt_deps *d) { return d->segments.data; }
static order *orders(const hiprt_deps *d) { return d->orders.data; }

hiprt_deps *hiprt_deps_create(void) {
  hiprt_deps *d = calloc(1, sizeof *d);
  if (!d) return 0;
  atomic_init(&d->references, 1);
  d->edges = HIPRT_EDGES_DATA;
  d->root = d->free_segment = d->barrier = NONE;
  d->random = 2463534242u;
  for (int chain = 0; chain < HIPRT_CHAINS; chain++) d->tails[chain] = NONE;
  return d;
}

hiprt_deps *hiprt_deps_retain(hiprt_deps *d) {
  if (d) atomic_fetch_add_explicit(&d->references, 1, memory_order_relaxed);
  return d;
}

void hiprt_deps_release(hiprt_deps *d) {
  if (!d || atomic_fetch_sub_explicit(&d->references, 1, memory_order_acq_rel) != 1) return;
  free(d->segments.data);
  free(d->readers.data);
  free(d->orders.data);
  free(d->pending.data);
  free(d);
}

void hiprt_deps_set_edges(hiprt_deps *d, uint32_t edges) { d->edges = edges; }
uint64_t hiprt_deps_bytes(const hiprt_deps *d) { return d->bytes; }

/* --- the treap: split and merge by start address --- */

static uint32_t merge(segment *s, uint32_t a, uint32_t b) {
  if (a == NONE) return b;
  if (b == NONE) return a;
  if (s[a].priority > s[b].priority) {
    s[a].right = merge(s, s[a].right, b);
    return a;
  }
  s[b].left = merge(s, a, s[b].left);
  return b;
}

/* Divide a tree: segments that start before `at` go left, the others right. */
static void split(segment *s, uint32_t root, uint64_t at, uint32_t *left, uint32_t *right) {
  while (root != NONE) {
    if (s[root].start < at) {
      *left = root;
      left = &s[root].right;
      root = s[root].right;
    } else {
      *right = root;
      right = &s[root].left;
      root = s[root].left;
    }
  }
  *left = *right = NONE;
}

static uint32_t new_segment(hiprt_deps *d, uint64_t start, uint64_t end, uint32_t writer, uint32_t readers) {
  uint32_t at = d->free_segment;
  if (at != NONE) {
    d->free_segment = segments(d)[at].right;
  } else {
    if (!push(&d->segments, sizeof(segment))) return NONE;
    at = d->segments.count - 1;
  }
  d->random ^= d->random << 13;
  d->random ^= d->random >> 17;
  d->random ^= d->random << 5;
  segments(d)[at] = (segment){start, end, NONE, NONE, d->random, writer, readers};
  return at;
}

static void free_segments(hiprt_deps *d, uint32_t root) {
  while (root != NONE) {
    segment *s = segments(d);
    d->bytes -= s[root].end - s[root].start;
    free_segments(d, s[root].left);
    uint32_t right = s[root].right;
    s[root].right = d->free_segment;
    d->free_segment = root;
    root = right;
  }
}

/* Cut a tree into [0, at) and [at, …), and a segment that spans `at` in two. */
static int cut(hiprt_deps *d, uint32_t root, uint64_t at, uint32_t *left, uint32_t *right) {
  split(segments(d), root, at, left, right);
  uint32_t last = *left;
  while (last != NONE && segments(d)[last].right != NONE) last = segments(d)[last].right;
  if (last == NONE || segments(d)[last].end <= at) return 0;
  segment spanning = segments(d)[last];
  uint32_t rest = new_segment(d, at, spanning.end, spanning.writer, spanning.readers);
  if (rest == NONE) return HIPRT_E_MEMORY;
  segments(d)[last].end = at;
  *right = merge(segments(d), rest, *right);
  return 0;
}

/* --- one node --- */

int hiprt_deps_begin(hiprt_deps *d) {
  d->pending.count = 0;
  d->is_barrier = 0;
  order *own = push(&d->orders, sizeof(order));
  if (!own) return HIPRT_E_MEMORY;
  memset(own, 0, sizeof *own);
  return 0;
}

static int depend(hiprt_deps *d, uint32_t node) {
  uint32_t current = d->orders.count - 1;
  if (node == NONE || node == current) return 0;
  uint32_t *pending = d->pending.data;
  if (d->pending.count && pending[d->pending.count - 1] == node) return 0;
  uint32_t *cell = push(&d->pending, sizeof(uint32_t));
  if (!cell) return HIPRT_E_MEMORY;
  *cell = node;
  return 0;
}

static int depend_on_readers(hiprt_deps *d, uint32_t cell) {
  for (; cell != NONE; cell = ((reader *)d->readers.data)[cell].next)
    if (depend(d, ((reader *)d->readers.data)[cell].node)) return HIPRT_E_MEMORY;
  return 0;
}

static int add_reader(hiprt_deps *d, uint32_t at, uint32_t node) {
  uint32_t head = segments(d)[at].readers;
  if (head != NONE && ((reader *)d->readers.data)[head].node == node) return 0;
  reader *cell = push(&d->readers, sizeof(reader));
  if (!cell) return HIPRT_E_MEMORY;
  *cell = (reader){node, head};
  segments(d)[at].readers = d->readers.count - 1;
  return 0;
}

/* Visit the segments of a subtree in order: collect their writers and add `node` as reader. */
static int read_segments(hiprt_deps *d, uint32_t root, uint32_t node) {
  for (; root != NONE; root = segments(d)[root].right) {
    if (read_segments(d, segments(d)[root].left, node)) return HIPRT_E_MEMORY;
    if (depend(d, segments(d)[root].writer) || add_reader(d, root, node)) return HIPRT_E_MEMORY;
  }
  return 0;
}

static int write_segments(hiprt_deps *d, uint32_t root) {
  for (; root != NONE; root = segments(d)[root].right) {
    if (write_segments(d, segments(d)[root].left)) return HIPRT_E_MEMORY;
    if (depend(d, segments(d)[root].writer) || depend_on_readers(d, segments(d)[root].readers)) return HIPRT_E_MEMORY;
  }
  return 0;
}

/* Give the parts of [start, end) that no segment covers segments of their own. */
static int fill_gaps(hiprt_deps *d, uint32_t *tree, uint64_t start, uint64_t end) {
  uint64_t at = start;
  while (at < end) {
    uint32_t left, right, first;
    if (cut(d, *tree, at, &left, &right)) return HIPRT_E_MEMORY;
    first = right;
    while (first != NONE && segments(d)[first].left != NONE) first = segments(d)[first].left;
    uint64_t next = first == NONE ? end : segments(d)[first].start;
    uint64_t covered = first == NONE ? end : segments(d)[first].end;
    if (next > at) {
      uint32_t gap = new_segment(d, at, next, NONE, NONE);
      if (gap == NONE) return HIPRT_E_MEMORY;
      d->bytes += next - at;
      left = merge(segments(d), left, gap);
    }
    *tree = merge(segments(d), left, right);
    at = covered;
  }
  return 0;
}

/* Return the segment that is the very range; NONE if there is none. */
static uint32_t segment_of(const hiprt_deps *d, uint64_t start, uint64_t end) {
  const segment *s = segments(d);
  uint32_t at = d->root;
  while (at != NONE && s[at].start != start) at = s[at].start < start ? s[at].right : s[at].left;
  return at != NONE && s[at].end == end ? at : NONE;
}

/* Access a whole segment, as most kernels access whole buffers: the tree stays as it is. */
static int access_whole(hiprt_deps *d, uint32_t at, uint32_t node, int write) {
  if (depend(d, segments(d)[at].writer)) return HIPRT_E_MEMORY;
  if (!write) return add_reader(d, at, node);
  if (depend_on_readers(d, segments(d)[at].readers)) return HIPRT_E_MEMORY;
  segments(d)[at].writer = node;
  segments(d)[at].readers = NONE;
  return 0;
}

int hiprt_deps_access(hiprt_deps *d, uint64_t start, uint64_t end, int write) {
  if (start >= end) return 0;
  uint32_t node = d->orders.count - 1, below, middle, above;
  const uint32_t whole = segment_of(d, start, end);
  if (whole != NONE) return access_whole(d, whole, node, write);
  if (cut(d, d->root, start, &below, &above) || cut(d, above, end, &middle, &above)) return HIPRT_E_MEMORY;
  int status;
  if (write) {
    status = write_segments(d, middle);
    free_segments(d, middle);
    middle = new_segment(d, start, end, node, NONE);
    if (middle == NONE) return HIPRT_E_MEMORY;
    d->bytes += end - start;
  } else {
    status = fill_gaps(d, &middle, start, end);
    if (!status) status = read_segments(d, middle, node);
  }
  d->root = merge(segments(d), merge(segments(d), below, middle), above);
  return status;
}

/* Whether a segment of a subtree that overlaps [start, end) has a writer. */
static int is_written(const hiprt_deps *d, uint32_t root, uint64_t start, uint64_t end) {
  for (; root != NONE; root = segments(d)[root].right) {
    const segment *s = segments(d) + root;
    if (s->start >= end) return is_written(d, s->left, start, end);
    if (s->end > start && s->writer != NONE) return 1;
    if (s->start > start && is_written(d, s->left, start, end)) return 1;
  }
  return 0;
}

int hiprt_deps_has_writer(const hiprt_deps *d, uint64_t start, uint64_t end) { return is_written(d, d->root, start, end); }

int hiprt_deps_is_written(const hiprt_deps *d, uint64_t start, uint64_t end) {
  return d->barrier != NONE || hiprt_deps_has_writer(d, start, end);
}

int hiprt_deps_barrier(hiprt_deps *d) {
  uint32_t node = d->orders.count - 1;
  /* The node waits for every node since the last barrier, which waits for the earlier ones. */
  for (uint32_t i = d->barrier == NONE ? 0 : d->barrier; i < node; i++)
    if (depend(d, i)) return HIPRT_E_MEMORY;
  d->is_barrier = 1;
  return 0;
}

static int descending(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? 1 : x > y ? -1 : 0;
}

static int is_after(const order *node, const order *earlier) {
  return earlier->chain != NONE && node->after[earlier->chain] >= earlier->position;
}

/* Thread the node onto a chain whose tail it is ordered after, else onto one that is not begun, else onto none. */
static void join_chain(hiprt_deps *d, uint32_t node) {
  order *own = orders(d) + node;
  uint32_t fresh = NONE;
  own->chain = NONE;
  for (uint32_t c = 0; c < HIPRT_CHAINS && own->chain == NONE; c++) {
    if (d->tails[c] == NONE)
      fresh = fresh == NONE ? c : fresh;
    else if (is_after(own, orders(d) + d->tails[c]))
      own->chain = c;
  }
  if (own->chain == NONE) own->chain = fresh;
  if (own->chain == NONE) return;
  uint32_t tail = d->tails[own->chain];
  own->position = tail == NONE ? 1 : orders(d)[tail].position + 1;
  own->after[own->chain] = own->position;
  d->tails[own->chain] = node;
}

int hiprt_deps_end(hiprt_deps *d, const uint32_t **out_deps, uint32_t *out_count) {
  uint32_t node = d->orders.count - 1;
  int reduce = d->edges != HIPRT_EDGES_BOTH;
  if (d->edges == HIPRT_EDGES_CHAIN) d->pending.count = 0;
  if (d->barrier != NONE && d->edges != HIPRT_EDGES_CHAIN && depend(d, d->barrier)) return HIPRT_E_MEMORY;
  if ((d->edges & HIPRT_EDGES_CHAIN) && node && depend(d, node - 1)) return HIPRT_E_MEMORY;
  uint32_t *pending = d->pending.data, count = d->pending.count, kept = 0;
  order *own = orders(d) + node;
  if (count > 1) qsort(pending, count, sizeof *pending, descending);
  /* From the latest on: what an accepted dependency is ordered after needs no edge of its own. */
  for (uint32_t i = 0; i < count; i++) {
    const order *earlier = orders(d) + pending[i];
    if ((kept && pending[kept - 1] == pending[i]) || (reduce && is_after(own, earlier))) continue;
    pending[kept++] = pending[i];
    for (int c = 0; c < HIPRT_CHAINS; c++)
      if (own->after[c] < earlier->after[c]) own->after[c] = earlier->after[c];
  }
  join_chain(d, node);
  for (uint32_t i = 0; i < kept / 2; i++) {
    uint32_t other = pending[i];
    pending[i] = pending[kept - 1 - i];
    pending[kept - 1 - i] = other;
  }
  if (d->is_barrier) d->barrier = node;
  *out_deps = pending;
  *out_count = kept;
  return 0;
}
