#include "placing.h"

#include <stdlib.h>

/* A request by what it is ordered by, the smallest first. */
typedef struct {
  int64_t first, second;
  uint32_t request;
} ranked;

/* Memory that is taken. */
typedef struct {
  int64_t start, end;
} extent;

static int compare(int64_t a, int64_t b) { return (a > b) - (a < b); }

static int by_rank(const void *a, const void *b) {
  const ranked *one = a, *other = b;
  const int first = compare(one->first, other->first), second = compare(one->second, other->second);
  return first ? first : second ? second : compare(one->request, other->request);
}

static int by_extent(const void *a, const void *b) {
  const extent *one = a, *other = b;
  const int start = compare(one->start, other->start);
  return start ? start : compare(one->end, other->end);
}

static int64_t conflicting(const hiprt_placing *placing, const int64_t *sizes, uint32_t request) {
  int64_t bytes = 0;
  for (uint32_t k = placing->begins[request]; k < placing->begins[request + 1]; k++) bytes += sizes[placing->others[k]];
  return bytes;
}

static ranked rank(const hiprt_placing *placing, const int64_t *sizes, uint32_t order, uint32_t request) {
  const int64_t size = -sizes[request], bytes = order % 2 ? 0 : -conflicting(placing, sizes, request);
  switch (order) {
    case 0: return (ranked){size, bytes, request};
    case 1: return (ranked){size, 0, request};
    case 2: return (ranked){bytes, size, request};
    default: return (ranked){placing->firsts[request], size, request};
  }
}

static int64_t tightest_gap(extent *taken, uint32_t count, int64_t size) {
  int64_t best = -1, tightest = 0, end = 0;
  qsort(taken, count, sizeof *taken, by_extent);
  for (uint32_t i = 0; i < count; i++) {
    const int64_t gap = taken[i].start - end;
    if (gap >= size && (best < 0 || gap < tightest)) {
      best = end;
      tightest = gap;
    }
    if (taken[i].end > end) end = taken[i].end;
  }
  return best < 0 ? end : best;
}

static int64_t place_in_order(const hiprt_placing *placing, const int64_t *sizes, const ranked *ranks, uint32_t count,
                              extent *taken, int64_t *offsets) {
  int64_t nbytes = 0;
  for (uint32_t i = 0; i < placing->count; i++) offsets[i] = -1;
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t request = ranks[i].request;
    uint32_t near = 0;
    for (uint32_t k = placing->begins[request]; k < placing->begins[request + 1]; k++) {
      const uint32_t other = placing->others[k];
      if (offsets[other] >= 0) taken[near++] = (extent){offsets[other], offsets[other] + sizes[other]};
    }
    offsets[request] = tightest_gap(taken, near, sizes[request]);
  }
  for (uint32_t i = 0; i < placing->count; i++) {
    offsets[i] = offsets[placing->heads[i]];
    if (offsets[i] + sizes[i] > nbytes) nbytes = offsets[i] + sizes[i];
  }
  return nbytes;
}

int64_t hiprt_place(const hiprt_placing *placing, const int64_t *sizes, uint32_t order, int64_t *offsets) {
  const size_t room = placing->count ? placing->count : 1;
  ranked *ranks = malloc(room * sizeof *ranks);
  extent *taken = malloc(room * sizeof *taken);
  int64_t nbytes = -1;
  if (ranks && taken) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < placing->count; i++)
      if (placing->heads[i] == i) ranks[count++] = rank(placing, sizes, order, i);
    qsort(ranks, count, sizeof *ranks, by_rank);
    nbytes = place_in_order(placing, sizes, ranks, count, taken, offsets);
  }
  free(ranks);
  free(taken);
  return nbytes;
}

int64_t hiprt_most_live(const hiprt_spans *spans, uint32_t n, const int64_t *sizes, int64_t alignment,
                        int64_t *out_aligned) {
  for (uint32_t i = 0; i < n; i++) out_aligned[i] = (sizes[i] + alignment - 1) / alignment * alignment;
  int64_t *change = calloc((size_t)spans->steps + 1, sizeof *change), live = 0, most = 0;
  if (!change) return -1;
  for (uint32_t i = 0; i < spans->count; i++) {
    change[spans->begins[i]] += out_aligned[spans->requests[i]];
    change[spans->ends[i]] -= out_aligned[spans->requests[i]];
  }
  for (uint32_t i = 0; i < spans->steps; i++)
    if ((live += change[i]) > most) most = live;
  free(change);
  return most;
}
