#include "slots.h"

#include <stdlib.h>
#include <string.h>

#include "room.h"
#include "status.h"

#define LEAST_TURNS 4 /* twice as many arguments, or twice as many as there are slots, are remembered */

int hiprt_ladder_create(hiprt_ladder **out_ladder) {
  *out_ladder = calloc(1, sizeof **out_ladder);
  return *out_ladder ? 0 : hiprt_fail(HIPRT_E_MEMORY, "hiprt_ladder_create", 0);
}

void hiprt_slots_let_go(hiprt_ladder *ladder, hiprt_slot gone) {
  ladder->version++;
  free(gone.changes.nodes);
  hiprt_successor_release(gone.successor);
  hiprt_exec_release(gone.exec);
}

static void empty(hiprt_ladder *ladder, hiprt_topology *t) {
  while (t->n_slots) hiprt_slots_let_go(ladder, t->slots[--t->n_slots]);
}

static void remove_topology(hiprt_ladder *ladder, uint32_t index) {
  hiprt_topology *t = ladder->topologies + index;
  empty(ladder, t);
  free(t->slots);
  free(t->seen);
  memmove(t, t + 1, (--ladder->count - index) * sizeof *t);
}

void hiprt_ladder_clear(hiprt_ladder *ladder) {
  while (ladder->count) remove_topology(ladder, ladder->count - 1);
}

void hiprt_ladder_release(hiprt_ladder *ladder) {
  if (!ladder) return;
  hiprt_ladder_clear(ladder);
  free(ladder->topologies);
  free(ladder);
}

static hiprt_topology *find_topology(const hiprt_ladder *ladder, uint64_t key) {
  for (uint32_t i = ladder->count; i-- > 0;)
    if (ladder->topologies[i].key == key) return ladder->topologies + i;
  return 0;
}

hiprt_topology *hiprt_slots_use(hiprt_ladder *ladder, uint64_t key) {
  hiprt_topology *t = find_topology(ladder, key), used = {.key = key};
  if (t) {
    used = *t;
    memmove(t, t + 1, (size_t)(ladder->topologies + --ladder->count - t) * sizeof *t);
  } else if (hiprt_room((void **)&ladder->topologies, ladder->count, 1, &ladder->room, sizeof *t, "hiprt_ladder")) {
    return 0;
  }
  t = ladder->topologies + ladder->count++;
  *t = used;
  return t;
}

/* Return the hiprt_slot of an exec, which may have been dropped, and its topology. */
hiprt_slot *hiprt_slots_find(const hiprt_ladder *ladder, const hiprt_exec *exec, hiprt_topology **out_topology) {
  for (uint32_t i = ladder->count; i-- > 0;)
    for (uint32_t k = 0; k < ladder->topologies[i].n_slots; k++)
      if (ladder->topologies[i].slots[k].exec == exec) {
        *out_topology = ladder->topologies + i;
        return (*out_topology)->slots + k;
      }
  return 0;
}

/* Return how many topologies have execs. */
static uint32_t live_topologies(const hiprt_ladder *ladder) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < ladder->count; i++) count += ladder->topologies[i].n_slots > 0;
  return count;
}

int hiprt_slots_keep(hiprt_ladder *ladder, hiprt_topology *t, hiprt_slot fresh, uint32_t keys) {
  if (hiprt_room((void **)&t->slots, t->n_slots, 1, &t->room, sizeof *t->slots, "hiprt_ladder")) {
    hiprt_slots_let_go(ladder, fresh);
    return HIPRT_E_MEMORY;
  }
  t->slots[t->n_slots++] = fresh;
  ladder->version++;
  uint32_t live = live_topologies(ladder);
  /* Those without execs are kept for the arguments that they have seen, within a bound of their own. */
  while ((live > keys || ladder->count > 2 * (uint64_t)keys) && ladder->topologies != t) {
    const int had_execs = ladder->topologies->n_slots > 0;
    remove_topology(ladder, 0);
    ladder->evicted += had_execs;
    live -= had_execs;
    t--;
  }
  return 0;
}

void hiprt_ladder_drop(hiprt_ladder *ladder, hiprt_exec *exec) {
  hiprt_topology *t;
  hiprt_slot *gone = hiprt_slots_find(ladder, exec, &t);
  if (!gone) return;
  const hiprt_slot kept = *gone;
  *gone = t->slots[--t->n_slots];
  hiprt_slots_let_go(ladder, kept);
}

void hiprt_ladder_discard(hiprt_ladder *ladder, uint64_t key) {
  hiprt_topology *t = find_topology(ladder, key);
  if (t) empty(ladder, t);
}

uint64_t hiprt_ladder_version(const hiprt_ladder *ladder) { return ladder->version; }
uint32_t hiprt_ladder_evicted(const hiprt_ladder *ladder) { return ladder->evicted; }

uint32_t hiprt_ladder_execs(const hiprt_ladder *ladder, uint32_t room, hiprt_exec **out_execs) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < ladder->count; i++)
    for (uint32_t k = 0; k < ladder->topologies[i].n_slots; k++, count++)
      if (count < room) out_execs[count] = ladder->topologies[i].slots[k].exec;
  return count;
}

int hiprt_slots_comes_back(hiprt_topology *t, uint64_t arguments, uint32_t slots) {
  if (slots < LEAST_TURNS) slots = LEAST_TURNS;
  for (uint32_t i = 0; i < t->n_seen; i++)
    if (t->seen[i] == arguments) return 1;
  if (!t->seen && (t->seen = calloc(slots, 2 * sizeof *t->seen))) t->max_seen = 2 * slots;
  if (!t->seen) return 0;
  t->seen[t->next_seen] = arguments;
  t->next_seen = (t->next_seen + 1) % t->max_seen;
  if (t->n_seen < t->max_seen) t->n_seen++;
  return 0;
}

