#include "capture.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "status.h"

int hiprt_capture_mode(int mode) {
  hipStreamCaptureMode swapped = (hipStreamCaptureMode)mode;
  if (!hiprt_hip.hipThreadExchangeStreamCaptureMode || hiprt_hip.hipThreadExchangeStreamCaptureMode(&swapped)) return mode;
  return (int)swapped;
}

static atomic_int captures;

int hiprt_captures(void) { return atomic_load_explicit(&captures, memory_order_relaxed); }

int hiprt_wait_for_device(int device) {
  if (hiprt_captures())
    return hiprt_fail(HIPRT_E_RECORDING, "hipDeviceSynchronize", "a stream is being captured, which this would end");
  HIPRT_TRY(hipSetDevice, device);
  HIPRT_TRY(hipDeviceSynchronize);
  return 0;
}

int hiprt_wait_for_event(hipEvent_t event) {
  const int mode = hiprt_capture_mode(hipStreamCaptureModeRelaxed), status = (int)hiprt_hip.hipEventSynchronize(event);
  hiprt_capture_mode(mode);
  return status ? hiprt_fail(status, "hipEventSynchronize", 0) : 0;
}

int hiprt_ask_event(hipEvent_t event) {
  const int mode = hiprt_capture_mode(hipStreamCaptureModeRelaxed), status = (int)hiprt_hip.hipEventQuery(event);
  hiprt_capture_mode(mode);
  return status ? hiprt_fail(status, "hipEventQuery", 0) : 0;
}

int hiprt_ask_stream(hipStream_t stream) {
  if (!hiprt_hip.hipStreamQuery) return hipErrorNotReady;
  const int mode = hiprt_capture_mode(hipStreamCaptureModeRelaxed), status = (int)hiprt_hip.hipStreamQuery(stream);
  hiprt_capture_mode(mode);
  return status ? hiprt_fail(status, "hipStreamQuery", 0) : 0;
}

int hiprt_wait_for_stream(hipStream_t stream) {
  const int mode = hiprt_capture_mode(hipStreamCaptureModeRelaxed), status = (int)hiprt_hip.hipStreamSynchronize(stream);
  hiprt_capture_mode(mode);
  return status ? hiprt_fail(status, "hipStreamSynchronize", 0) : 0;
}

int hiprt_is_capturing(hipStream_t stream) {
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  if (!hiprt_hip.hipStreamIsCapturing) return 0;
  return hiprt_hip.hipStreamIsCapturing(stream, &status) != hipSuccess || status != hipStreamCaptureStatusNone;
}

int hiprt_capture_begin(hipStream_t stream) {
  const hiprt_functions *hip = &hiprt_hip;
  if (!hip->hipStreamBeginCapture || !hip->hipStreamEndCapture || !hip->hipStreamGetCaptureInfo_v2 ||
      !hip->hipStreamUpdateCaptureDependencies || !hip->hipGraphGetNodes || !hip->hipGraphGetEdges)
    return hiprt_fail(HIPRT_E_LIBRARY, "hipStreamBeginCapture", "the library lacks stream capture");
  HIPRT_TRY(hipStreamBeginCapture, stream, hipStreamCaptureModeRelaxed);
  atomic_fetch_add_explicit(&captures, 1, memory_order_relaxed);
  return 0;
}

int hiprt_capture_has_work(hipStream_t stream) {
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  size_t count = 0;
  if (hiprt_hip.hipStreamGetCaptureInfo_v2(stream, &status, 0, 0, 0, &count)) return 1;
  return status != hipStreamCaptureStatusActive || count != 0;
}

static int is_in(hipGraphNode_t node, const hipGraphNode_t *nodes, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (nodes[i] == node) return 1;
  return 0;
}

int hiprt_capture_wiring(hipGraph_t graph, hiprt_wiring *out) {
  size_t n_nodes = 0, n_edges = 0;
  *out = (hiprt_wiring){0};
  HIPRT_TRY(hipGraphGetNodes, graph, 0, &n_nodes);
  HIPRT_TRY(hipGraphGetEdges, graph, 0, 0, &n_edges);
  const size_t n_handles = n_nodes + 2 * n_edges;
  hipGraphNode_t *nodes = calloc(1, n_handles * sizeof *nodes + n_edges + 1);
  if (!nodes) return hiprt_fail(HIPRT_E_MEMORY, "hiprt_capture_wiring", 0);
  hipGraphNode_t *from = nodes + n_nodes, *to = from + n_edges;
  unsigned char *overlaps = (unsigned char *)(nodes + n_handles);
  int status = n_nodes ? (int)hiprt_hip.hipGraphGetNodes(graph, nodes, &n_nodes) : 0;
  if (!status && n_edges)
    status = hiprt_hip.hiprtGraphGetEdgesWithOverlap
                 ? (int)hiprt_hip.hiprtGraphGetEdgesWithOverlap(graph, from, to, overlaps, &n_edges)
                 : (int)hiprt_hip.hipGraphGetEdges(graph, from, to, &n_edges);
  if (status) {
    free(nodes);
    return hiprt_fail(status, "hipGraphGetEdges", "of a capture");
  }
  *out = (hiprt_wiring){nodes, from, to, overlaps, n_nodes, n_edges};
  return 0;
}

/* Collect the nodes that no edge leaves, and say how many of them the stream's next work would not come after. */
static int find_leaves(hipGraph_t graph, const hipGraphNode_t *tails, size_t n_tails, hipGraphNode_t **out_leaves,
                       size_t *out_count, size_t *out_open) {
  hiprt_wiring all;
  int status = hiprt_capture_wiring(graph, &all);
  *out_count = *out_open = 0;
  for (size_t i = 0; i < all.n_nodes; i++) {
    if (is_in(all.nodes[i], all.from, all.n_edges)) continue;
    *out_open += !is_in(all.nodes[i], tails, n_tails);
    all.nodes[(*out_count)++] = all.nodes[i];
  }
  *out_leaves = all.nodes;
  return status;
}

/* Join what the capture forked. CLR ends a capture without an operation behind its joins as unjoined, and leaves the
 * stream of an unjoined capture in a state that nothing ends: so all work comes before one empty node. Which stream a node
 * came from is not told, and so one leaf, too, may be another stream's.
 * *out_open is the number of branches that were not joined. */
static int join(hipStream_t stream, size_t *out_open) {
  hipStreamCaptureStatus state = hipStreamCaptureStatusNone;
  hipGraph_t graph = 0;
  const hipGraphNode_t *tails = 0;
  hipGraphNode_t *leaves = 0, joined;
  size_t n_tails = 0, count = 0;
  *out_open = 0;
  HIPRT_TRY(hipStreamGetCaptureInfo_v2, stream, &state, 0, &graph, &tails, &n_tails);
  if (state != hipStreamCaptureStatusActive) return 0;
  int status = find_leaves(graph, tails, n_tails, &leaves, &count, out_open);
  if (!status && count) {
    status = (int)hiprt_hip.hipGraphAddEmptyNode(&joined, graph, leaves, count);
    if (!status)
      status = (int)hiprt_hip.hipStreamUpdateCaptureDependencies(stream, &joined, 1, hipStreamSetCaptureDependencies);
    if (status) hiprt_fail(status, "hipStreamUpdateCaptureDependencies", "to join a capture");
  }
  free(leaves);
  return status;
}

int hiprt_capture_drop(hipStream_t stream) {
  /* CLR leaves junk in `graph`, and the stream captured: a new capture takes it out of that state. A stream on which
   * none can begin is asked once more to end this one. */
  hipGraph_t graph = 0;
  hiprt_hip.hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed);
  if (!hiprt_hip.hipStreamEndCapture(stream, &graph) && graph) hiprt_hip.hipGraphDestroy(graph);
  return hiprt_is_capturing(stream);
}

int hiprt_capture_end(hipStream_t stream, hipGraph_t *out_graph) {
  size_t open = 0;
  hipGraph_t graph = 0;
  *out_graph = 0;
  int status = join(stream, &open), ended = (int)hiprt_hip.hipStreamEndCapture(stream, &graph);
  atomic_fetch_sub_explicit(&captures, 1, memory_order_relaxed);
  if (ended) {
    hiprt_capture_drop(stream);
    return hiprt_fail(ended, "hipStreamEndCapture", "a call that a capture forbids has ended it, here or in another thread");
  }
  if (!status && open)
    status = hiprt_fail(hipErrorStreamCaptureUnjoined, "hipStreamEndCapture", "a stream that it forked was not joined");
  if (status) {
    if (graph) hiprt_hip.hipGraphDestroy(graph);
    return status;
  }
  *out_graph = graph;
  return 0;
}
