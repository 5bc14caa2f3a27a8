/* Building a HIP graph from a recording: its nodes, its edges, one root, and join nodes where a node fans out wide. */
#pragma once
#include "library.h"
#include "recorder.h"

/* How a graph is built from a recording. */
typedef struct {
  uint32_t fanout; /* the most edges that leave a node; 0: no bound, and as many roots as there are */
  int overlap;     /* whether nodes that may start before the one they depend on has finished do */
} hiprt_build_options;

/* out_nodes: one handle per recorded node. out_overlaps: programmatic edges made. On failure the graph is destroyed and
 * *out_graph is NULL. */
int hiprt_build_graph(const hiprt_recorder *recorder, const hiprt_build_options *options, hipGraph_t *out_graph,
                      hipGraphNode_t *out_nodes, uint32_t *out_overlaps);
/* The parameters of a fill node. */
hipMemsetParams hiprt_fill_params(const hiprt_fill_args *fill);
