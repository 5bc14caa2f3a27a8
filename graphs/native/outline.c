#include "outline.h"

#include <string.h>

#define NONE UINT32_MAX

/* What hiprt_recorder_outline writes. */
typedef struct {
  const hiprt_range *extents;
  uint32_t n_extents;
  uint32_t *out;
  uint64_t count, room;
} outline;

static uint64_t put(outline *o, uint32_t word) {
  if (o->count < o->room) o->out[o->count] = word;
  return o->count++;
}

/* Count one more in a word that is written already. */
static void count_up(outline *o, uint64_t at) {
  if (at < o->room) o->out[at]++;
}

/* Return the first extent that ends behind an address. */
static uint32_t extent_behind(const outline *o, uint64_t address) {
  uint32_t low = 0, high = o->n_extents;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (o->extents[middle].end > address)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

/* Note the extents that [start, end) overlaps, behind the word `at`, which counts them; each once. */
static void put_touched(outline *o, uint64_t at, uint64_t start, uint64_t end) {
  for (uint32_t i = extent_behind(o, start); i < o->n_extents && o->extents[i].start < end; i++) {
    const hiprt_range extent = o->extents[i];
    if (extent.start >= extent.end || start >= end) continue;
    uint64_t k = at + 1;
    while (k < o->count && k < o->room && o->out[k] != i) k++;
    if (k < o->count) continue;
    put(o, i);
    count_up(o, at);
  }
}

/* Return the extent that is the very range; NONE if there is none. */
static uint32_t extent_of(const outline *o, hiprt_range range) {
  const uint32_t i = extent_behind(o, range.start);
  return i < o->n_extents && o->extents[i].start == range.start && o->extents[i].end == range.end ? i : NONE;
}

/* Whether a node touches a source's extent through `sources` alone, and what it writes through the target alone. */
static int is_apart(const hiprt_node *n, hiprt_range source, uint64_t sources, uint32_t target) {
  const hiprt_range made = n->ranges[target];
  for (uint32_t k = 0; k < n->n_ranges; k++) {
    const hiprt_range piece = n->ranges[k];
    const int is_same = piece.start == source.start && piece.end == source.end;
    if (k != target && piece.start < made.end && made.start < piece.end) return 0;
    if (piece.start < source.end && source.start < piece.end && !(is_same && sources >> k & 1)) return 0;
  }
  return source.start < source.end;
}

static void put_in_place(outline *o, const hiprt_node *n) {
  const uint64_t at = put(o, 0);
  for (uint32_t target = 0; n->kernel && target < n->kernel->n_buffers; target++) {
    const uint64_t sources = n->kernel->over[target];
    const uint32_t made = sources ? extent_of(o, n->ranges[target]) : NONE;
    for (uint32_t k = 0; made != NONE && k < n->n_ranges; k++) {
      const uint32_t read = sources >> k & 1 ? extent_of(o, n->ranges[k]) : NONE;
      int is_new = read != NONE;
      for (uint32_t j = 0; j < k; j++)
        if (sources >> j & 1 && n->ranges[j].start == n->ranges[k].start && n->ranges[j].end == n->ranges[k].end) is_new = 0;
      if (!is_new || !is_apart(n, n->ranges[k], sources, target)) continue;
      put(o, read);
      put(o, made);
      count_up(o, at);
    }
  }
}

uint64_t hiprt_recorder_outline(const hiprt_recorder *r, uint32_t n_extents, const hiprt_range *extents, uint32_t *out,
                                uint64_t room) {
  outline o = {extents, n_extents, out, 0, room};
  for (uint32_t i = 0; i < hiprt_recorder_size(r); i++) {
    hiprt_node n;
    hiprt_recorder_node(r, i, &n);
    const uint64_t at = put(&o, 0);
    for (uint32_t k = 0; k < n.n_ranges; k++) put_touched(&o, at, n.ranges[k].start, n.ranges[k].end);
    for (uint32_t k = 0; k < n.n_addresses; k++) {
      uint64_t address;
      memcpy(&address, n.payload + n.addresses[k], sizeof address);
      put_touched(&o, at, address, address + 1);
    }
    put(&o, n.n_deps);
    for (uint32_t k = 0; k < n.n_deps; k++) put(&o, n.deps[k]);
    put_in_place(&o, &n);
  }
  return o.count;
}
