/* Outlines: what the nodes of a recording do with pieces of memory, which is what a plan of that memory is made of.
 *
 * The recording is only read, and the words are the caller's. Called by the thread that records. */
#pragma once
#include "recorder.h"

/* cffi begin */
/* Tell what the nodes do with memory that is to be laid out: `extents`, ascending and disjoint. For each node in order:
 * the number of extents that it touches and these, the number of nodes that it waits for and these, and the number of
 * pairs of whole extents of which it may write the second where it reads the first, and these. Return the number of
 * words; those for which `out` has room are written. */
uint64_t hiprt_recorder_outline(const hiprt_recorder *recorder, uint32_t n_extents, const hiprt_range *extents,
                                uint32_t *out, uint64_t room);
/* cffi end */
