/* Captured graphs: the walk over a graph of other code, each node behind those that it waits for, and the nodes of child
 * graphs where the child stood (G5).
 *
 * The graph stays its owner's, and is only read. Called by the thread that takes the captured work. */
#pragma once
#include "captured_pieces.h"

/* Append all nodes of a graph, or compare them. HIPRT_E_FOREIGN: one of them cannot be a node of a recording. */
int hiprt_captured_walk(hiprt_pieces *all, hipGraph_t graph);
