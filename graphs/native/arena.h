/* Arenas: memory for the intermediates of a step, which stand at provisional addresses while it is recorded.
 *
 * An arena has a reference to its pool, and a block of it. It belongs to one step and one stream, from the first recording
 * that it settles on, and to the thread that records. hiprt.h declares the rest. */
#pragma once
#include "recorder.h"

/* Lay out what was asked of an arena, and give the recording its addresses. step: whose recording it is. *out_has_grown: the
 * memory of recordings before is no longer theirs. */
int hiprt_arena_settle(hiprt_arena *arena, const hiprt_step *step, hiprt_recorder *recorder, hiprt_stream *stream,
                       int *out_has_grown);
