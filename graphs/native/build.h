/* Building a HIP graph from a recording: its nodes, its edges, one root, and join nodes where a node fans out wide. */
#pragma once
#include "hiprt_core.h"
#include "library.h"
#include "recorder.h"

/* fanout: the most edges that leave a node; 0: no bound, and as many roots as there are. out_nodes: one handle per recorded node. On failure the
 * graph is destroyed and *out_graph is NULL. */
int hiprt_build_graph(const hiprt_recorder *recorder, uint32_t fanout, hipGraph_t *out_graph, hipGraphNode_t *out_nodes);
/* The parameters of a fill node. */
hipMemsetParams hiprt_fill_params(const hiprt_fill_args *fill);
