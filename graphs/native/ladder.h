/* Ladders: the execs of one step by topology, the slots that its launches take turns in, and the choice of a rung.
 *
 * A ladder belongs to one thread at a time: its owner holds a lock from the choice to the launch, so that no other thread
 * patches the exec in between (G12). */
#pragma once
#include "exec.h"
#include "rung_costs.h"
#include "successor.h"

/* cffi begin */
typedef struct hiprt_ladder hiprt_ladder;

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

int hiprt_ladder_create(hiprt_ladder **out_ladder);
void hiprt_ladder_release(hiprt_ladder *ladder);
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
/* Drop one exec, those whose topology keys have a hash, or all. */
void hiprt_ladder_drop(hiprt_ladder *ladder, hiprt_exec *exec);
void hiprt_ladder_discard(hiprt_ladder *ladder, uint64_t key);
void hiprt_ladder_clear(hiprt_ladder *ladder);
/* Return a number that changes whenever an exec comes or goes. */
uint64_t hiprt_ladder_version(const hiprt_ladder *ladder);
/* List at most `room` execs, those of the topology used longest ago first, and return how many there are. */
uint32_t hiprt_ladder_execs(const hiprt_ladder *ladder, uint32_t room, hiprt_exec **out_execs);
/* Return how many topologies there are, and how many were dropped because there were too many. */
uint32_t hiprt_ladder_topologies(const hiprt_ladder *ladder);
uint32_t hiprt_ladder_evicted(const hiprt_ladder *ladder);
/* cffi end */

/* Where an argument was, and is, in the first node that was changed: see hiprt_difference. */
typedef struct {
  hiprt_difference shown;
  char before[4096]; /* what `shown` may point to */
} hiprt_pointed;

/* Patch an exec of the ladder where its memory, as its recording's pointers name it, begins at `starts` from now on.
 * out_choice->exec is NULL, and nothing has changed, where that is for hiprt_ladder_find to decide: the exec is in flight
 * or kept for a call, another one carries these arguments or is to, another rung is cheaper, or half of the update budget
 * is used. On failure the exec is to be dropped (G8); its recording has the new arguments. */
int hiprt_ladder_point(hiprt_ladder *ladder, hiprt_exec *exec, hiprt_pointers *pointers, const uint64_t *starts,
                       hiprt_stream *stream, const hiprt_rules *rules, hiprt_choice *out_choice,
                       hiprt_pointed *out_pointed);
