/* Verification: an exec's launch compared with an eager run of its nodes from the same state.
 *
 * Called with the step's lock; it waits for the stream. */
#pragma once
#include "exec.h"

/* Launch an exec and its nodes eagerly; see hiprt_step_verify. `out` is filled in where this returns 0. */
int hiprt_verify(hiprt_exec *exec, hiprt_recorder *recorder, hiprt_stream *stream, hiprt_mismatch *out, int *out_ran);
