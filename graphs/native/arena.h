/* Arenas: the intermediates of a step that stand at provisional addresses while it is recorded, and their plan. */
#pragma once
#include "recorder.h"

/* Plan intermediates of what is recorded; out_plan as for hiprt_step_plan. */
int hiprt_recorder_plan(const hiprt_recorder *recorder, uint32_t count, const hiprt_intermediate *intermediates,
                        uint64_t *out_offsets, hiprt_plan *out_plan);
/* Lay out what was asked of an arena, and give the recording its addresses. step: whose recording it is. *out_has_grown: the
 * memory of recordings before is no longer theirs. */
int hiprt_arena_settle(hiprt_arena *arena, const hiprt_step *step, hiprt_recorder *recorder, hiprt_stream *stream,
                       int *out_has_grown);
