/* Pointing: an exec of a ladder is patched where the memory of its nodes begins elsewhere, without a recording of the new
 * arguments.
 *
 * It belongs to the thread that has the ladder; see ladder.h. */
#pragma once
#include "ladder.h"

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
