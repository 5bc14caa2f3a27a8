#include "compare.h"

#include <stdlib.h>

#include "guards.h"
#include "recorder_nodes.h"
#include "status.h"

/* Whether two recordings differ only where their memory begins elsewhere. */
static int are_alike(const hiprt_recorder *a, const hiprt_recorder *b) { return a->pointers && a->pointers == b->pointers; }

int hiprt_recorder_same_key(const hiprt_recorder *a, const hiprt_recorder *b) {
  if (a == b || are_alike(a, b)) return 1;
  if (hiprt_guards_off & HIPRT_GUARD_KEY) return a->n_nodes == b->n_nodes;
  if (a->key != b->key || a->n_nodes != b->n_nodes || a->n_deps != b->n_deps) return 0;
  if (a->alike == b->alike) return 1; /* they were compared as one of them was recorded */
  if (a->n_deps && memcmp(a->deps, b->deps, a->n_deps * sizeof *a->deps)) return 0;
  for (uint32_t i = 0; i < a->n_nodes; i++) {
    const node *x = a->nodes + i, *y = b->nodes + i;
    if (x->kind != y->kind || x->n_deps != y->n_deps || x->may_overlap != y->may_overlap) return 0;
    if (!is_launch(x)) continue;
    if (function_of(a, x) != function_of(b, y)) return 0;
    if (memcmp(a->bytes + x->payload, b->bytes + y->payload, sizeof(hiprt_dims))) return 0;
  }
  return 1;
}

/* Whether node i carries other arguments in b than in a. */
static int differs(const hiprt_recorder *a, const hiprt_recorder *b, uint32_t i) {
  size_t x, y, size = arguments_of(a->nodes + i, &x);
  arguments_of(b->nodes + i, &y);
  return !are_same(a->bytes + x, b->bytes + y, size);
}

int hiprt_recorder_same_arguments(const hiprt_recorder *a, const hiprt_recorder *b) {
  for (uint32_t i = 0; a != b && i < a->n_nodes; i++)
    if (differs(a, b, i)) return 0;
  return 1;
}

uint32_t hiprt_recorder_changed(const hiprt_recorder *a, const hiprt_recorder *b, uint32_t *out_first, uint64_t *out_bytes) {
  uint32_t changed = 0;
  *out_bytes = 0;
  for (uint32_t i = 0; i < a->n_nodes; i++) {
    if (!differs(a, b, i)) continue;
    if (!changed++) *out_first = i;
    *out_bytes += b->nodes[i].payload_size;
  }
  return changed;
}

int hiprt_recorder_difference(const hiprt_recorder *a, const hiprt_recorder *b, uint32_t index, hiprt_difference *out) {
  if (index >= a->n_nodes || index >= b->n_nodes) return 0;
  const node *x = a->nodes + index, *y = b->nodes + index;
  if (!x->kernel) return 0;
  const hiprt_kernel *own = x->source ? 0 : x->kernel;
  *out = (hiprt_difference){.name = x->kernel->name, .kernel = own, .argument = UINT32_MAX};
  for (uint32_t i = 0; i < x->kernel->n_args; i++) {
    const size_t at = sizeof(hiprt_dims) + x->kernel->offsets[i], size = x->kernel->args[i].size;
    const char *was = a->bytes + x->payload + at, *now = b->bytes + y->payload + at;
    if (!memcmp(was, now, size)) continue;
    *out = (hiprt_difference){x->kernel->name, own, was, now, i, (uint32_t)size};
    break;
  }
  return 1;
}

/* Make room for the list of all nodes, and behind it for a bit of each, which are zeros; returns these. */
static uint64_t *reserve_changes(uint32_t n_nodes, hiprt_changes *changes) {
  const size_t listed = ((size_t)n_nodes + 1) / 2 * 2, words = (size_t)n_nodes / 64 + 1;
  if (changes->room < n_nodes || !changes->nodes) {
    uint32_t *grown = realloc(changes->nodes, listed * sizeof *grown + words * sizeof(uint64_t));
    if (!grown) return 0;
    changes->nodes = grown;
    changes->room = n_nodes;
  }
  return memset(changes->nodes + listed, 0, words * sizeof(uint64_t));
}

/* Mark the nodes with words that point into memory which begins elsewhere. */
static void mark_moved(const hiprt_recorder *a, const uint64_t *starts, uint64_t *marks) {
  for (uint32_t m = 0; m < hiprt_pointers_memories(a->pointers); m++) {
    uint32_t count = 0;
    const hiprt_pointer *words = a->starts[m] == starts[m] ? 0 : hiprt_pointers_into(a->pointers, m, &count);
    for (uint32_t i = 0; i < count; i++) marks[words[i].node / 64] |= (uint64_t)1 << words[i].node % 64;
  }
}

static void list_node(const hiprt_recorder *r, uint32_t index, hiprt_changes *out) {
  out->nodes[out->count++] = index;
  out->bytes += r->nodes[index].payload_size;
}

static void list_marked(const hiprt_recorder *r, const uint64_t *marks, hiprt_changes *out) {
  for (uint32_t word = 0; word <= r->n_nodes / 64; word++)
    for (uint64_t bits = marks[word]; bits; bits &= bits - 1)
      list_node(r, word * 64 + (uint32_t)__builtin_ctzll(bits), out);
}

int hiprt_recorder_compare_starts(const hiprt_recorder *r, const uint64_t *starts, hiprt_changes *out) {
  uint64_t *marks = reserve_changes(r->n_nodes, out);
  if (!marks) return hiprt_fail(HIPRT_E_MEMORY, "hiprt_recorder_compare_starts", 0);
  out->count = 0;
  out->bytes = 0;
  mark_moved(r, starts, marks);
  list_marked(r, marks, out);
  return 0;
}

int hiprt_recorder_compare(const hiprt_recorder *a, const hiprt_recorder *b, hiprt_changes *out) {
  uint64_t *marks = reserve_changes(b->n_nodes, out);
  if (!marks) return hiprt_fail(HIPRT_E_MEMORY, "hiprt_recorder_compare", 0);
  out->count = 0;
  out->bytes = 0;
  if (a == b) return 0;
  if (are_alike(a, b)) {
    mark_moved(a, b->starts, marks);
    list_marked(b, marks, out);
    return 0;
  }
  for (uint32_t i = 0; i < b->n_nodes; i++)
    if (differs(a, b, i)) list_node(b, i, out);
  return 0;
}
