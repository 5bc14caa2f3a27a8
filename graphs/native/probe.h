/* Probes: what a library does, found out with small graphs.
 *
 * Nothing is kept. The stream and the words are the caller's, and nobody else uses them meanwhile. */
#pragma once
#include "kernel.h"
#include "stream.h"

/* cffi begin */
/* Find out whether hipGraphExecUpdate refuses a graph with other edges between the same nodes. */
int hiprt_probe_wiring(int device, int *out_refused);
/* Make a graph of one node that writes a number, change it again and again by patches or updates (hiprt_rung), or not at all
 * for HIPRT_INSTANTIATE, and launch it each time. *out_seen is what a launch wrote, and *out_wanted what it should have
 * written: they differ for the first launch that was wrong, and otherwise not. store, words: as for hiprt_rules_probe. */
int hiprt_probe_rung(hiprt_stream *stream, hiprt_kernel *store, uint64_t words, uint32_t rung, uint32_t *out_wanted,
                     uint32_t *out_seen);
/* cffi end */
