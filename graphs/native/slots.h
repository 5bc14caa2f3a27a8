/* Slots: the execs of one step by topology, of which each has several in flight (G2), and what is remembered of them.
 *
 * A ladder owns its slots, and a slot its exec. They belong to the thread that has the ladder; see ladder.h. */
#pragma once
#include <stddef.h>

#include "exec.h"
#include "successor.h"

/* cffi begin */
typedef struct hiprt_ladder hiprt_ladder;

int hiprt_ladder_create(hiprt_ladder **out_ladder);
void hiprt_ladder_release(hiprt_ladder *ladder);
/* Drop one exec, those whose topology keys have a hash, or all. */
void hiprt_ladder_drop(hiprt_ladder *ladder, hiprt_exec *exec);
void hiprt_ladder_discard(hiprt_ladder *ladder, uint64_t key);
void hiprt_ladder_clear(hiprt_ladder *ladder);
/* Return a number that changes whenever an exec comes or goes. */
uint64_t hiprt_ladder_version(const hiprt_ladder *ladder);
/* List at most `room` execs, those of the topology used longest ago first, and return how many there are. */
uint32_t hiprt_ladder_execs(const hiprt_ladder *ladder, uint32_t room, hiprt_exec **out_execs);
/* Return how many topologies were dropped because there were too many. */
uint32_t hiprt_ladder_evicted(const hiprt_ladder *ladder);
/* cffi end */

/* An exec, and what the ladder knows of it. */
typedef struct {
  hiprt_exec *exec;
  hiprt_successor *successor; /* NULL until half of the budget is used */
  int is_same;                /* whether it has the key of the recording that is searched for now */
  hiprt_changes changes;      /* from what it carries to that, where it has its key */
} hiprt_slot;

/* The execs whose keys have one hash. */
typedef struct {
  uint64_t key;
  hiprt_slot *slots;
  uint32_t n_slots;
  size_t room;
  uint64_t *seen; /* hashes of the arguments that came last, in a ring */
  uint32_t n_seen, next_seen, max_seen;
} hiprt_topology;

struct hiprt_ladder {
  hiprt_topology *topologies; /* the one used longest ago first */
  uint32_t count;
  size_t room;
  uint32_t evicted;
  uint64_t version;
};

/* Return the topology of a key as the one used last, which is made if there is none; NULL if there is no memory for it. */
hiprt_topology *hiprt_slots_use(hiprt_ladder *ladder, uint64_t key);
/* Return the slot of an exec, and its topology; NULL where the exec was dropped. */
hiprt_slot *hiprt_slots_find(const hiprt_ladder *ladder, const hiprt_exec *exec, hiprt_topology **out_topology);
/* Keep an exec, whose reference the ladder takes, also where this fails, and drop the topologies used longest ago that are
 * over the bound. */
int hiprt_slots_keep(hiprt_ladder *ladder, hiprt_topology *topology, hiprt_slot fresh, uint32_t keys);
/* Let go of what a slot had. */
void hiprt_slots_let_go(hiprt_ladder *ladder, hiprt_slot gone);
/* Note arguments; whether the topology had them before, as buffers that take turns do. Without memory nothing is noted. */
int hiprt_slots_comes_back(hiprt_topology *topology, uint64_t arguments, uint32_t slots);
