/* Launches of a step: by the rung that its ladder chooses, or eagerly where a graph call fails (G8).
 *
 * All are called with the step's lock. *out_ran: 0 if a call failed and nothing has been launched. */
#pragma once
#include "step.h"

/* Launch a recording by any rung. */
int hiprt_step_launch(hiprt_step *step, hiprt_recorder *recorder, hiprt_stream *stream, hiprt_outcome *out, int *out_ran);
/* Launch the last exec again, or the nodes that it carries where it cannot be. */
int hiprt_step_launch_last(hiprt_step *step, hiprt_stream *stream, hiprt_outcome *out, int *out_ran);
/* Let a failed graph call be followed by an eager run of the recording, unless its nodes may have run already (G8). */
int hiprt_step_fall(hiprt_step *step, int failure, hiprt_recorder *recorder, hiprt_stream *stream, hiprt_outcome *out,
                    int *out_ran);
/* Say in `out` which node is the first with other arguments. */
void hiprt_step_name_first(const hiprt_recorder *recorder, hiprt_outcome *out);
