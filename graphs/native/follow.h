/* Following: a recording that repeats an earlier one takes the edges and the key from there, which costs less than to find
 * them.
 *
 * The recorder holds a reference to the one that it follows, which gets no more nodes. Called by the thread that records. */
#pragma once
#include "recorder.h"

/* cffi begin */
/* Expect the nodes of an earlier recording again: as long as kernels, dimensions and memory are the same, the edges are
 * taken from there. Memory that no node writes may be other such memory. Behind the first node that differs in more, edges
 * are found as without this. The recorder must be empty; where the earlier recording cannot be followed, nothing happens. */
void hiprt_recorder_follow(hiprt_recorder *recorder, hiprt_recorder *like);
/* Let go of what is followed, when no more is recorded. */
void hiprt_recorder_end(hiprt_recorder *recorder);
/* cffi end */

/* Let go of what is followed, at the first node that does not repeat it. */
void hiprt_recorder_leave(hiprt_recorder *recorder);
