/* Eager runs: the nodes of a recording, launched one after the other without a graph.
 *
 * The recording is only read. Called by the thread that launches. */
#pragma once
#include "recorder.h"

/* cffi begin */
/* Launch every node in program order on a stream that does not record. *out_ran: 0 if the call failed and no node has
 * been launched, 1 if some have been, or may have been. */
int hiprt_recorder_run(const hiprt_recorder *recorder, hiprt_stream *stream, int *out_ran);
/* cffi end */
