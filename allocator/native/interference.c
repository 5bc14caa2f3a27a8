#include "interference.h"

#include <stdlib.h>
#include <string.h>

#include "placing.h"
#include "status.h"

/* For each of some numbers a list of numbers: those of i are all[begins[i]] to all[begins[i + 1] - 1]. */
typedef struct {
  uint32_t *begins, *all;
} lists;

typedef struct {
  uint32_t a, b;
} pair;

typedef struct {
  pair *all;
  size_t count, room;
} pairs;

/* Sets of nodes, one for each node, as bits. */
typedef struct {
  uint64_t *bits;
  size_t words; /* of a set */
} sets;

struct hiprt_interference {
  uint32_t count; /* requests */
  uint32_t *heads, *apart, *firsts;
  lists conflicts;         /* by request */
  lists together, separate; /* by head, where requests continue others in place, and where none does */
  uint32_t *live, *begins, *ends; /* of hiprt_spans */
  hiprt_spans spans;
};

static int add_pair(pairs *to, uint32_t a, uint32_t b) {
  if (to->count == to->room) {
    const size_t room = to->room ? 2 * to->room : 256;
    pair *grown = realloc(to->all, room * sizeof *grown);
    if (!grown) return HIPRT_E_MEMORY;
    to->all = grown;
    to->room = room;
  }
  to->all[to->count++] = (pair){a, b};
  return 0;
}

static int by_numbers(const void *one, const void *other) {
  const pair *a = one, *b = other;
  if (a->a != b->a) return a->a < b->a ? -1 : 1;
  return (a->b > b->b) - (a->b < b->b);
}

/* Make lists of pairs, each number once in a list; the pairs are sorted. */
static int make_lists(pairs *from, uint32_t count, lists *out) {
  out->begins = calloc((size_t)count + 1, sizeof *out->begins);
  out->all = malloc((from->count ? from->count : 1) * sizeof *out->all);
  if (!out->begins || !out->all) return HIPRT_E_MEMORY;
  if (from->count) qsort(from->all, from->count, sizeof *from->all, by_numbers);
  uint32_t end = 0;
  for (size_t i = 0; i < from->count; i++) {
    const pair each = from->all[i];
    if (i && !by_numbers(&each, from->all + i - 1)) continue;
    out->all[end++] = each.b;
    out->begins[each.a + 1] = end;
  }
  for (uint32_t i = 1; i <= count; i++)
    if (out->begins[i] < out->begins[i - 1]) out->begins[i] = out->begins[i - 1];
  return 0;
}

static int make_sets(uint32_t nodes, sets *out) {
  out->words = ((size_t)nodes + 63) / 64;
  out->bits = calloc((size_t)nodes * out->words + 1, sizeof *out->bits);
  return out->bits ? 0 : HIPRT_E_MEMORY;
}

static uint64_t *set_of(const sets *s, uint32_t node) { return s->bits + node * s->words; }

static int has(const uint64_t *set, uint32_t node) { return set[node / 64] >> node % 64 & 1; }

/* Find, for each node, the nodes that are ordered before it. */
static void find_ancestors(const hiprt_requests *r, const sets *ancestors) {
  for (uint32_t node = 0; node < r->n_nodes; node++) {
    uint64_t *set = set_of(ancestors, node);
    for (uint32_t k = r->earlier_begins[node]; k < r->earlier_begins[node + 1]; k++) {
      const uint32_t earlier = r->earlier[k];
      const uint64_t *of = set_of(ancestors, earlier);
      for (size_t w = 0; w < ancestors->words; w++) set[w] |= of[w];
      set[earlier / 64] |= 1ull << earlier % 64;
    }
  }
}

/* Find, for each node, the nodes that are ordered before it and before every later node. */
static void find_settled(uint32_t nodes, const sets *ancestors, const sets *settled) {
  for (uint32_t node = nodes; node--;) {
    uint64_t *set = set_of(settled, node);
    memcpy(set, set_of(ancestors, node), ancestors->words * sizeof *set);
    if (node + 1 == nodes) continue;
    const uint64_t *later = set_of(settled, node + 1);
    for (size_t w = 0; w < ancestors->words; w++) set[w] &= later[w];
  }
}

/* Whether all users of a request, but for the node `but`, are in a set. */
static int are_in(const hiprt_requests *r, uint32_t request, const uint64_t *set, uint32_t but) {
  for (uint32_t k = r->user_begins[request]; k < r->user_begins[request + 1]; k++)
    if (r->users[k] != but && !has(set, r->users[k])) return 0;
  return 1;
}

static int is_used(const hiprt_requests *r, uint32_t request) { return r->user_begins[request] < r->user_begins[request + 1]; }

/* List the requests that have bytes and users, by first user. */
static int order_requests(const hiprt_requests *r, pairs *out) {
  int status = 0;
  for (uint32_t i = 0; !status && i < r->n_requests; i++)
    if (is_used(r, i) && r->sizes[i]) status = add_pair(out, r->users[r->user_begins[i]], i);
  if (!status && out->count) qsort(out->all, out->count, sizeof *out->all, by_numbers);
  return status;
}

/* Find which requests conflict: each with those that began before it and are not ordered before all of its users. */
static int find_conflicts(const hiprt_requests *r, const sets *ancestors, const sets *settled, pairs *out) {
  pairs order = {0};
  uint32_t *live = malloc(((size_t)r->n_requests + 1) * sizeof *live), n_live = 0;
  uint64_t *before = malloc((ancestors->words + 1) * sizeof *before);
  int status = live && before ? order_requests(r, &order) : HIPRT_E_MEMORY;
  for (size_t i = 0; !status && i < order.count; i++) {
    const uint32_t later = order.all[i].b;
    /* What is ordered before this node and all behind it conflicts with no request that begins here or later. */
    const uint64_t *past = set_of(settled, order.all[i].a);
    uint32_t kept = 0;
    for (uint32_t k = 0; k < n_live; k++)
      if (r->is_result[live[k]] || !are_in(r, live[k], past, UINT32_MAX)) live[kept++] = live[k];
    n_live = kept;
    memset(before, 0xff, ancestors->words * sizeof *before);
    for (uint32_t k = r->user_begins[later]; k < r->user_begins[later + 1]; k++)
      for (size_t w = 0; w < ancestors->words; w++) before[w] &= set_of(ancestors, r->users[k])[w];
    for (uint32_t k = 0; !status && k < n_live; k++) {
      if (!r->is_result[live[k]] && are_in(r, live[k], before, UINT32_MAX)) continue;
      status = add_pair(out, later, live[k]);
      if (!status) status = add_pair(out, live[k], later);
    }
    live[n_live++] = later;
  }
  free(order.all);
  free(live);
  free(before);
  return status;
}

/* Whether a node is ordered before all users of a request but itself. */
static int is_before(const hiprt_requests *r, const sets *ancestors, uint32_t node, uint32_t request) {
  for (uint32_t k = r->user_begins[request]; k < r->user_begins[request + 1]; k++)
    if (r->users[k] != node && !has(set_of(ancestors, r->users[k]), node)) return 0;
  return 1;
}

/* Find the head of each request's chain: it has memory of its own, which the others of the chain continue in place. */
static int find_heads(const hiprt_requests *r, const sets *ancestors, uint32_t *heads) {
  uint8_t *is_given = calloc((size_t)r->n_requests + 1, 1);
  if (!is_given) return HIPRT_E_MEMORY;
  for (uint32_t i = 0; i < r->n_requests; i++) heads[i] = i;
  for (uint32_t i = 0; i < r->n_in_place; i++) {
    const uint32_t node = r->in_place[3 * i], source = r->in_place[3 * i + 1], target = r->in_place[3 * i + 2];
    if (is_given[source] || heads[target] != target || r->is_result[source] || r->sizes[source] != r->sizes[target]) continue;
    /* What is overwritten must have been read by all others, and what is written must not have been used before. */
    if (!are_in(r, source, set_of(ancestors, node), node) || !is_before(r, ancestors, node, target)) continue;
    heads[target] = heads[source];
    is_given[source] = 1;
  }
  free(is_given);
  return 0;
}

/* List, for each head, the other heads that one of its chain conflicts with. */
static int find_others(const pairs *conflicts, const uint32_t *heads, uint32_t count, lists *out) {
  pairs found = {0};
  int status = 0;
  for (size_t i = 0; !status && i < conflicts->count; i++) {
    const uint32_t a = heads[conflicts->all[i].a], b = heads[conflicts->all[i].b];
    if (a != b) status = add_pair(&found, a, b);
  }
  if (!status) status = make_lists(&found, count, out);
  free(found.all);
  return status;
}

/* Find when each chain is live in program order. */
static void find_spans(const hiprt_requests *r, hiprt_interference *s) {
  uint32_t n = 0, steps = 1;
  for (uint32_t i = 0; i < r->n_requests; i++) {
    s->begins[i] = UINT32_MAX;
    s->ends[i] = 0; /* UINT32_MAX: to the end */
  }
  for (uint32_t i = 0; i < r->n_requests; i++) {
    const uint32_t head = s->heads[i];
    if (r->is_result[i]) s->ends[head] = UINT32_MAX;
    if (!is_used(r, i)) continue;
    const uint32_t first = r->users[r->user_begins[i]], end = r->users[r->user_begins[i + 1] - 1] + 1;
    if (first < s->begins[head]) s->begins[head] = first;
    if (end > s->ends[head]) s->ends[head] = end;
    if (end > steps) steps = end;
  }
  for (uint32_t i = 0; i < r->n_requests; i++) {
    if (s->begins[i] == UINT32_MAX) continue;
    s->live[n] = i;
    s->begins[n] = s->begins[i];
    s->ends[n++] = s->ends[i] < steps ? s->ends[i] : steps;
  }
  s->spans = (hiprt_spans){n, steps, s->live, s->begins, s->ends};
}

static int fill(const hiprt_requests *r, hiprt_interference *s) {
  const size_t room = ((size_t)r->n_requests + 1) * sizeof(uint32_t);
  s->count = r->n_requests;
  uint32_t **const arrays[] = {&s->heads, &s->apart, &s->firsts, &s->live, &s->begins, &s->ends};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
    if (!(*arrays[i] = malloc(room))) return HIPRT_E_MEMORY;
  for (uint32_t i = 0; i < r->n_requests; i++) {
    s->apart[i] = i;
    s->firsts[i] = is_used(r, i) ? r->users[r->user_begins[i]] : 0;
  }
  sets ancestors = {0}, settled = {0};
  pairs conflicts = {0};
  int status = make_sets(r->n_nodes, &ancestors);
  if (!status) status = make_sets(r->n_nodes, &settled);
  if (!status) {
    find_ancestors(r, &ancestors);
    find_settled(r->n_nodes, &ancestors, &settled);
    status = find_heads(r, &ancestors, s->heads);
  }
  if (!status) status = find_conflicts(r, &ancestors, &settled, &conflicts);
  if (!status) status = find_others(&conflicts, s->heads, s->count, &s->together);
  if (!status) status = find_others(&conflicts, s->apart, s->count, &s->separate);
  if (!status) status = make_lists(&conflicts, s->count, &s->conflicts);
  if (!status) find_spans(r, s);
  free(conflicts.all);
  free(ancestors.bits);
  free(settled.bits);
  return status;
}

int hiprt_interference_create(const hiprt_requests *requests, hiprt_interference **out_interference) {
  hiprt_interference *interference = *out_interference = calloc(1, sizeof *interference);
  if (interference && !fill(requests, interference)) return 0;
  hiprt_interference_release(interference);
  *out_interference = 0;
  return hiprt_fail(HIPRT_E_MEMORY, "hiprt_interference_create", "for a plan of memory");
}

void hiprt_interference_release(hiprt_interference *s) {
  if (!s) return;
  void *const arrays[] = {s->heads,         s->apart,           s->firsts,       s->live,
                          s->begins,        s->ends,            s->conflicts.all, s->conflicts.begins,
                          s->together.all,  s->together.begins, s->separate.all, s->separate.begins};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) free(arrays[i]);
  free(s);
}

const uint32_t *hiprt_interference_heads(const hiprt_interference *interference) { return interference->heads; }

/* A request by its size, the largest first. */
typedef struct {
  int64_t size;
  uint32_t request;
} sized;

static int by_size(const void *one, const void *other) {
  const sized *a = one, *b = other;
  if (a->size != b->size) return a->size > b->size ? -1 : 1;
  return (a->request > b->request) - (a->request < b->request);
}

/* What conflicting_bytes works with. */
typedef struct {
  const hiprt_interference *s;
  const int64_t *sizes;
  sized *near;
  uint32_t *chosen, *seen; /* seen: by request, how many of those chosen it conflicts with */
} clique;

/* Return the bytes of a set with one request of which any two conflict, found greedily; 0 if it has no more than `most`. */
static int64_t grow(const clique *c, uint32_t request, int64_t most) {
  const lists *conflicts = &c->s->conflicts;
  const uint32_t *heads = c->s->heads;
  uint32_t n_near = 0, n_chosen = 0;
  int64_t total = c->sizes[request], all = total;
  for (uint32_t k = conflicts->begins[request]; k < conflicts->begins[request + 1]; k++) {
    const uint32_t other = conflicts->all[k];
    if (heads[other] == heads[request]) continue;
    c->near[n_near++] = (sized){c->sizes[other], other};
    all += c->sizes[other];
  }
  if (all <= most) return 0;
  if (n_near) qsort(c->near, n_near, sizeof *c->near, by_size);
  for (uint32_t i = 0; i < n_near; i++) {
    const uint32_t other = c->near[i].request;
    if (c->seen[other] != n_chosen) continue;
    total += c->sizes[other];
    c->chosen[n_chosen++] = other;
    for (uint32_t k = conflicts->begins[other]; k < conflicts->begins[other + 1]; k++)
      c->seen[conflicts->all[k]] += heads[conflicts->all[k]] != heads[other];
  }
  for (uint32_t i = 0; i < n_chosen; i++)
    for (uint32_t k = conflicts->begins[c->chosen[i]]; k < conflicts->begins[c->chosen[i] + 1]; k++)
      c->seen[conflicts->all[k]] = 0;
  return total;
}

/* Return the size of a set of requests of which any two conflict, the largest that is found; -1 without memory. */
static int64_t conflicting_bytes(const hiprt_interference *s, const int64_t *sizes) {
  const size_t room = (size_t)s->count + 1;
  const clique c = {s, sizes, malloc(room * sizeof(sized)), malloc(room * sizeof(uint32_t)), calloc(room, sizeof(uint32_t))};
  int64_t most = c.near && c.chosen && c.seen ? 0 : -1;
  for (uint32_t i = 0; most >= 0 && i < s->count; i++) {
    const int64_t found = grow(&c, i, most);
    if (found > most) most = found;
  }
  free(c.near);
  free(c.chosen);
  free(c.seen);
  return most;
}

/* What hiprt_interference_place writes, and works with. */
typedef struct {
  int64_t *aligned, *tried, *offsets;
  hiprt_placed *placed;
} placement;

/* Try all orders of placing, and keep the smallest; whether the bound is reached, or -1 without memory. */
static int try_orders(const hiprt_interference *s, const uint32_t *heads, const lists *others, placement *p, int is_apart) {
  const hiprt_placing placing = {s->count, heads, s->firsts, others->begins, others->all};
  for (uint32_t order = 0; order < HIPRT_PLACING_ORDERS; order++) {
    const int64_t nbytes = hiprt_place(&placing, p->aligned, order, p->tried);
    if (nbytes < 0) return -1;
    const int is_first = p->placed->nbytes < 0;
    if (is_first && nbytes > p->placed->lower_bound) {
      const int64_t bound = conflicting_bytes(s, p->aligned);
      if (bound < 0) return -1;
      if (bound > p->placed->lower_bound) p->placed->lower_bound = bound;
    }
    if (is_first || nbytes < p->placed->nbytes) {
      memcpy(p->offsets, p->tried, s->count * sizeof *p->offsets);
      p->placed->nbytes = nbytes;
      p->placed->is_apart = (uint32_t)is_apart;
    }
    if (nbytes == p->placed->lower_bound) return 1;
  }
  return 0;
}

static int place(const hiprt_interference *s, const int64_t *sizes, int64_t alignment, placement *p) {
  p->placed->lower_bound = hiprt_most_live(&s->spans, s->count, sizes, alignment, p->aligned);
  if (p->placed->lower_bound < 0) return -1;
  const int found = try_orders(s, s->heads, &s->together, p, 0);
  /* Long chains in place may leave gaps that requests with memory of their own fill. */
  if (found || !memcmp(s->heads, s->apart, s->count * sizeof *s->heads)) return found;
  return try_orders(s, s->apart, &s->separate, p, 1);
}

int hiprt_interference_place(const hiprt_interference *s, const int64_t *sizes, int64_t alignment, int64_t *out_offsets,
                          hiprt_placed *out_placed) {
  const size_t room = ((size_t)s->count + 1) * sizeof(int64_t);
  placement p = {malloc(room), malloc(room), out_offsets, out_placed};
  *out_placed = (hiprt_placed){.nbytes = -1};
  const int status = p.aligned && p.tried && place(s, sizes, alignment, &p) >= 0 ? 0 : HIPRT_E_MEMORY;
  free(p.aligned);
  free(p.tried);
  return status ? hiprt_fail(status, "hiprt_interference_place", "for a plan of memory") : 0;
}
