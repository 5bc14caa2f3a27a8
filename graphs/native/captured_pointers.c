#include "captured_pointers.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "status.h"

struct hiprt_pointers {
  atomic_uint references;
  uint32_t n_memories;
  uint32_t *first; /* of each memory's words; one more says where the last ones end */
  hiprt_pointer *words; /* ascending by memory, then as they were given */
  uint64_t *places;     /* where each memory must begin; UINT64_MAX: anywhere */
  uint32_t *beside;     /* the memory that begins where each one does */
};

int hiprt_pointers_create(uint32_t n_memories, uint32_t n_pointers, const hiprt_pointer *pointers,
                          hiprt_pointers **out_pointers) {
  hiprt_pointers *p = *out_pointers = 0;
  for (uint32_t i = 0; i < n_pointers; i++)
    if (pointers[i].memory >= n_memories) return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_pointers_create", "no such memory");
  if ((p = calloc(1, sizeof *p))) {
    atomic_init(&p->references, 1);
    p->n_memories = n_memories;
    p->first = calloc((size_t)n_memories + 2, sizeof *p->first);
    p->words = calloc((size_t)n_pointers + 1, sizeof *p->words);
    p->places = calloc((size_t)n_memories + 1, sizeof *p->places);
    p->beside = calloc((size_t)n_memories + 1, sizeof *p->beside);
  }
  if (!p || !p->first || !p->words || !p->places || !p->beside) {
    hiprt_pointers_release(p);
    return hiprt_fail(HIPRT_E_MEMORY, "hiprt_pointers_create", 0);
  }
  /* Counted two places on, the sums are where each memory's next word goes, and in the end where the memories begin. */
  for (uint32_t i = 0; i < n_pointers; i++) p->first[pointers[i].memory + 2]++;
  for (uint32_t m = 1; m < n_memories + 2; m++) p->first[m] += p->first[m - 1];
  for (uint32_t i = 0; i < n_pointers; i++) p->words[p->first[pointers[i].memory + 1]++] = pointers[i];
  for (uint32_t m = 0; m < n_memories; m++) {
    p->places[m] = UINT64_MAX;
    p->beside[m] = m;
  }
  *out_pointers = p;
  return 0;
}

void hiprt_pointers_bind(hiprt_pointers *p, const uint64_t *places, const uint32_t *beside) {
  memcpy(p->places, places, p->n_memories * sizeof *places);
  memcpy(p->beside, beside, p->n_memories * sizeof *beside);
}

int hiprt_pointers_may_move(const hiprt_pointers *p, const uint64_t *starts) {
  for (uint32_t m = 0; m < p->n_memories; m++)
    if ((p->places[m] != UINT64_MAX && p->places[m] != starts[m]) || starts[m] != starts[p->beside[m]]) return 0;
  return 1;
}

hiprt_pointers *hiprt_pointers_retain(hiprt_pointers *p) {
  if (p) atomic_fetch_add_explicit(&p->references, 1, memory_order_relaxed);
  return p;
}

void hiprt_pointers_release(hiprt_pointers *p) {
  if (!p || atomic_fetch_sub_explicit(&p->references, 1, memory_order_acq_rel) != 1) return;
  free(p->first);
  free(p->words);
  free(p->places);
  free(p->beside);
  free(p);
}

uint32_t hiprt_pointers_memories(const hiprt_pointers *p) { return p->n_memories; }

const hiprt_pointer *hiprt_pointers_into(const hiprt_pointers *p, uint32_t memory, uint32_t *out_count) {
  *out_count = p->first[memory + 1] - p->first[memory];
  return p->words + p->first[memory];
}
