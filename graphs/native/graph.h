/* Graphs: a HIP graph built from a recording, with one root, and with join nodes where many edges leave a node.
 *
 * The caller owns the graph, and destroys it. Graphs of one device are built and set by one thread at a time (G12). */
#pragma once
#include "library.h"
#include "recorder.h"

/* How a graph is built from a recording. */
typedef struct {
  uint32_t fanout; /* the most edges that leave a node; 0: no bound, and as many roots as there are */
  int overlap;     /* whether nodes that may start before the one they depend on has finished do */
} hiprt_graph_options;

/* Build a graph. out_nodes receives one handle for each recorded node, and out_overlaps the number of programmatic
 * edges.
 * On failure *out_graph is NULL. */
int hiprt_graph_build(const hiprt_recorder *recorder, const hiprt_graph_options *options, hipGraph_t *out_graph,
                      hipGraphNode_t *out_nodes, uint32_t *out_overlaps);
/* Give the nodes of a graph that was built of a recording of the same key the arguments of this one. */
int hiprt_graph_set(const hiprt_recorder *recorder, const hipGraphNode_t *nodes);
/* Return the parameters of a fill node. */
hipMemsetParams hiprt_fill_params(const hiprt_fill_args *fill);
