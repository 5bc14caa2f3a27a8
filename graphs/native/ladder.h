/* Ladders: the choice of a rung for what a step has recorded, among the execs that it has.
 *
 * A ladder belongs to one thread at a time: its owner holds a lock from the choice to the launch, so that no other thread
 * patches the exec in between (G12). */
#pragma once
#include "rung_costs.h"
#include "slots.h"

/* cffi begin */
/* The exec that carries a recording's arguments, and the rung that led to it. */
typedef struct {
  hiprt_exec *exec;  /* borrowed from the ladder */
  uint32_t rung;     /* hiprt_rung */
  uint32_t is_new;   /* the ladder had no exec of the topology */
  uint32_t changed;  /* nodes with other arguments than those of the nearest exec; all if it is new */
  uint32_t first;    /* the first of them; after a patch or an update, of those of the exec that was changed */
  uint32_t differing; /* nodes with other arguments than those of the exec that was changed */
  uint32_t waited;   /* slots, all in flight, of which the first to be launched was waited for; 0: none was */
  uint32_t replaced; /* execs whose update budget was spent */
  double seconds;    /* what the change took, or making the exec */
  char reason[HIPRT_REASON]; /* why it was no replay; empty for a replay */
} hiprt_choice;

/* Find an exec that carries a recording's arguments, or make one do so; the rules allow instantiate. On failure an exec
 * may be half changed: hiprt_ladder_discard comes next (G8). */
int hiprt_ladder_find(hiprt_ladder *ladder, hiprt_recorder *recorder, hiprt_stream *stream, const hiprt_rules *rules,
                      hiprt_choice *out_choice);
/* Begin to make an exec of a recording, which must not change any more, on another thread. */
int hiprt_ladder_begin(hiprt_recorder *recorder, int device, const hiprt_rules *rules, hiprt_successor **out_successor);
/* Wait for such an exec and keep it; *out_exec is borrowed from the ladder. The successor ends, also where this fails. */
int hiprt_ladder_take(hiprt_ladder *ladder, hiprt_successor *successor, const hiprt_rules *rules, hiprt_exec **out_exec);
/* Wait for an exec and give the listed nodes the addresses that they have after the moves (hiprt_exec_move), which write
 * this many bytes of arguments, within the update budget (G7). *out_exec: the exec; or the successor that takes its place,
 * in which nothing has moved yet; or NULL where it is more than any exec may take, or several kept calls hold the exec. */
int hiprt_ladder_move(hiprt_ladder *ladder, hiprt_exec *exec, const hiprt_rules *rules, uint32_t n_nodes,
                      const uint32_t *nodes, uint64_t bytes, uint32_t n_moves, const hiprt_move *moves,
                      hiprt_exec **out_exec);
/* cffi end */
