#include "bins.h"

#include <stdlib.h>
#include <string.h>

#define STEPS 8u /* size classes in each doubling, so that at most 1/8 of a block is unused */

static uint32_t log2_of(uint64_t n) { return 63u - (uint32_t)__builtin_clzll(n); }

uint64_t hiprt_books_class(uint64_t nbytes) {
  uint64_t grains = nbytes ? (nbytes - 1) / HIPRT_GRAIN + 1 : 1;
  if (grains <= 2 * STEPS) return grains * HIPRT_GRAIN;
  uint64_t step = 1ull << (log2_of(grains - 1) - 3);
  return (grains + step - 1) / step * step * HIPRT_GRAIN;
}

/* Return the largest class that a size reaches. */
static uint32_t bin_of(uint64_t nbytes) {
  uint64_t grains = nbytes / HIPRT_GRAIN;
  if (grains < 2 * STEPS) return (uint32_t)grains;
  uint32_t power = log2_of(grains);
  return 2 * STEPS + (power - 4) * STEPS + (uint32_t)(grains >> (power - 3)) - STEPS;
}

int hiprt_bins_precede(const block *a, const block *b) {
  if (a->chunk->number != b->chunk->number) return a->chunk->number < b->chunk->number;
  return a->shown.address < b->shown.address;
}

static void put(bin *in, uint32_t place, block *b) {
  in->heap[place] = b;
  b->place = place;
}

static void rise(bin *in, uint32_t place, block *b) {
  for (uint32_t parent; place && hiprt_bins_precede(b, in->heap[parent = (place - 1) / 2]); place = parent)
    put(in, place, in->heap[parent]);
  put(in, place, b);
}

static void sink(bin *in, uint32_t place, block *b) {
  for (;;) {
    uint32_t child = 2 * place + 1;
    if (child >= in->size) break;
    if (child + 1 < in->size && hiprt_bins_precede(in->heap[child + 1], in->heap[child])) child++;
    if (!hiprt_bins_precede(in->heap[child], b)) break;
    put(in, place, in->heap[child]);
    place = child;
  }
  put(in, place, b);
}

static int has_room(hiprt_bins *all, uint32_t index) {
  if (index >= all->count) {
    bin *grown = realloc(all->bins, (index + STEPS) * sizeof *grown);
    if (!grown) return 0;
    memset(grown + all->count, 0, (index + STEPS - all->count) * sizeof *grown);
    all->bins = grown;
    all->count = index + STEPS;
  }
  bin *in = all->bins + index;
  if (in->size < in->capacity) return 1;
  uint32_t capacity = in->capacity ? 2 * in->capacity : 4;
  block **grown = realloc(in->heap, capacity * sizeof *grown);
  if (!grown) return 0;
  in->heap = grown;
  in->capacity = capacity;
  return 1;
}

void hiprt_bins_add(hiprt_bins *all, block *b) {
  uint32_t index = bin_of(b->shown.nbytes);
  b->place = HIPRT_NOWHERE;
  if (has_room(all, index)) rise(all->bins + index, all->bins[index].size++, b);
}

void hiprt_bins_remove(hiprt_bins *all, block *b) {
  if (b->place == HIPRT_NOWHERE) return;
  bin *in = all->bins + bin_of(b->shown.nbytes);
  block *last = in->heap[--in->size];
  if (last == b) return;
  if (hiprt_bins_precede(last, b))
    rise(in, b->place, last);
  else
    sink(in, b->place, last);
}

block *hiprt_bins_find(const hiprt_bins *all, uint64_t nbytes, uint64_t serial) {
  block *found = 0;
  uint32_t end = bin_of(2 * nbytes);
  if (end > all->count) end = all->count;
  for (uint32_t i = bin_of(nbytes); i < end; i++) {
    const bin *in = all->bins + i;
    /* Where any block will do, the top one goes first. */
    uint32_t size = serial == HIPRT_ANY && in->size ? 1 : in->size;
    for (uint32_t k = 0; k < size; k++)
      if (in->heap[k]->serial <= serial && (!found || hiprt_bins_precede(in->heap[k], found))) found = in->heap[k];
  }
  return found;
}

void hiprt_bins_free(hiprt_bins *all) {
  for (uint32_t i = 0; i < all->count; i++) free(all->bins[i].heap);
  free(all->bins);
}
