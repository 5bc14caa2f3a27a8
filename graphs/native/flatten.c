#include "flatten.h"

#include "capture.h"
#include "captured_graph.h"
#include "order.h"
#include "status.h"

int hiprt_flatten_begin(hiprt_recorder *r, hiprt_stream *stream) {
  int status = hiprt_stream_is_open(stream, "hiprt_flatten_begin");
  if (status) return status;
  HIPRT_TRY(hipSetDevice, stream->device);
  hiprt_order_close(stream);
  status = hiprt_capture_begin(stream->handle);
  if (!status)
    hiprt_recorder_listen(r, stream->handle);
  else
    hiprt_order_open(stream);
  return status;
}

static int end_capture(hiprt_stream *stream, hipGraph_t *out_graph) {
  const int status = hiprt_capture_end(stream->handle, out_graph);
  atomic_store_explicit(&stream->is_stuck, status && hiprt_is_capturing(stream->handle), memory_order_relaxed);
  hiprt_order_open(stream);
  return status;
}

int hiprt_flatten_end(hiprt_recorder *r, hiprt_stream *stream, uint32_t n_ranges, const hiprt_range *ranges,
                      const uint8_t *access, int is_barrier, uint64_t from, uint64_t to, uint32_t *out_nodes) {
  hipGraph_t graph = 0;
  *out_nodes = 0;
  hiprt_recorder_listen(r, 0);
  /* The capture ends whatever fails, so that the stream can be used. */
  int chosen = (int)hiprt_hip.hipSetDevice(stream->device), status = end_capture(stream, &graph);
  if (chosen) {
    if (graph) hiprt_hip.hipGraphDestroy(graph);
    return hiprt_fail(chosen, "hipSetDevice", 0);
  }
  if (status) return status;
  hiprt_pieces all = {.from = from, .to = to};
  hiprt_captured *captured = hiprt_captured_create(graph, stream->device);
  if (!captured) {
    hiprt_hip.hipGraphDestroy(graph);
    return HIPRT_E_MEMORY;
  }
  captured->is_barrier = is_barrier;
  status = hiprt_captured_walk(&all, graph);
  for (uint32_t i = 0; !status && i < n_ranges; i++) status = hiprt_captured_claim(captured, ranges[i], access[i]);
  if (!status) status = hiprt_pieces_claim(&all, captured);
  if (!status) status = hiprt_pieces_record(&all, r, captured);
  *out_nodes = status ? 0 : (uint32_t)all.count;
  hiprt_pieces_drop(&all);
  hiprt_captured_release(captured);
  return status;
}

int hiprt_flatten_graph(hiprt_recorder *r, uint64_t given, int device, int is_given) {
  hipGraph_t graph = (hipGraph_t)(uintptr_t)given;
  hiprt_pieces all = {.keeps_edges = 1};
  int status = (int)hiprt_hip.hipSetDevice(device);
  if (!is_given) {
    if (status) return hiprt_fail(status, "hipSetDevice", 0);
    if (!hiprt_hip.hipGraphClone) return hiprt_pieces_refuse("the HIP library cannot copy a graph");
    HIPRT_TRY(hipGraphClone, &graph, (hipGraph_t)(uintptr_t)given);
  }
  hiprt_captured *captured = hiprt_captured_create(graph, device);
  if (!captured) {
    hiprt_hip.hipGraphDestroy(graph);
    return HIPRT_E_MEMORY;
  }
  captured->is_barrier = 1;
  status = status ? hiprt_fail(status, "hipSetDevice", 0) : hiprt_captured_walk(&all, graph);
  if (!status) status = hiprt_pieces_record(&all, r, captured);
  hiprt_pieces_drop(&all);
  hiprt_captured_release(captured);
  return status;
}

void hiprt_flatten_like(hiprt_recorder *like, uint64_t given, int device, int is_given, hiprt_recorder **out_recorder) {
  hipGraph_t graph = (hipGraph_t)(uintptr_t)given;
  hiprt_captured_match match = {.like = like};
  hiprt_pieces all = {.keeps_edges = 1, .match = &match};
  *out_recorder = 0;
  if (hiprt_recorder_captured_on(like) != device || hiprt_hip.hipSetDevice(device)) return;
  const int status = hiprt_captured_walk(&all, graph);
  hiprt_captured_match_end(&match, status, out_recorder);
  if (*out_recorder && is_given) hiprt_hip.hipGraphDestroy(graph);
  hiprt_pieces_drop(&all);
}

void hiprt_flatten_drop(hiprt_recorder *r, hiprt_stream *stream) {
  hipGraph_t graph = 0;
  hiprt_recorder_listen(r, 0);
  hiprt_hip.hipSetDevice(stream->device);
  if (!end_capture(stream, &graph)) hiprt_hip.hipGraphDestroy(graph);
}
