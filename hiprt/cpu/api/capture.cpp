// HIP's functions of stream capture.
#include <mutex>

#include "enumerator.h"
#include "graph/capture.h"
#include "graph/capture_rules.h"
#include "graph/graph.h"
#include "runtime/status.h"
#include "runtime/stream.h"

namespace cpu {
namespace {

using Lock = std::lock_guard<std::mutex>;

// The caller holds graph_mutex().
hipError_t inform(hipStream_t stream, CaptureInfo *info) {
  if (is_legacy(stream)) return legacy_would_join() ? hipErrorStreamCaptureImplicit : hipSuccess;
  return capture_info(stream, info);
}

}  // namespace
}  // namespace cpu

using namespace cpu;

hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode) {
  return api([&] { return begin_capture(stream, number_of(mode), nullptr, nullptr, 0); });
}

hipError_t hipStreamBeginCaptureToGraph(hipStream_t stream, hipGraph_t graph, const hipGraphNode_t *dependencies,
                                        const hipGraphEdgeData *dependencyData, size_t numDependencies,
                                        hipStreamCaptureMode mode) {
  return api([&]() -> hipError_t {
    if (!graph || (dependencies && numDependencies == 0)) return hipErrorInvalidValue;
    if (dependencyData) return hipErrorNotSupported;
    return begin_capture(stream, number_of(mode), graph, dependencies, numDependencies);
  });
}

hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t *pGraph) {
  return api([&] { return end_capture(stream, pGraph); });
}

hipError_t hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus *pCaptureStatus) {
  return api([&]() -> hipError_t {
    if (!pCaptureStatus) return hipErrorInvalidValue;
    Lock lock(graph_mutex());
    CaptureInfo info;
    if (const hipError_t error = inform(stream, &info)) return error;
    *pCaptureStatus = info.status;
    return hipSuccess;
  });
}

hipError_t hipStreamGetCaptureInfo(hipStream_t stream, hipStreamCaptureStatus *pCaptureStatus,
                                   unsigned long long *pId) {
  return hipStreamGetCaptureInfo_v2(stream, pCaptureStatus, pId, nullptr, nullptr, nullptr);
}

hipError_t hipStreamGetCaptureInfo_v2(hipStream_t stream, hipStreamCaptureStatus *captureStatus_out,
                                      unsigned long long *id_out, hipGraph_t *graph_out,
                                      const hipGraphNode_t **dependencies_out, size_t *numDependencies_out) {
  return api([&]() -> hipError_t {
    if (!captureStatus_out) return hipErrorInvalidValue;
    Lock lock(graph_mutex());
    CaptureInfo info;
    if (const hipError_t error = inform(stream, &info)) return error;
    *captureStatus_out = info.status;
    if (info.status != hipStreamCaptureStatusActive) return hipSuccess;
    if (id_out) *id_out = info.id;
    if (graph_out) *graph_out = info.graph;
    if (dependencies_out) *dependencies_out = info.tails->data();
    if (numDependencies_out) *numDependencies_out = info.tails->size();
    return hipSuccess;
  });
}

hipError_t hipStreamUpdateCaptureDependencies(hipStream_t stream, hipGraphNode_t *dependencies, size_t numDependencies,
                                              unsigned int flags) {
  return api([&] { return update_capture(stream, dependencies, numDependencies, flags); });
}

hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode *mode) {
  return api([&]() -> hipError_t {
    if (!mode || !is_capture_mode(number_of(*mode))) return hipErrorInvalidValue;
    *mode = exchange_thread_mode(*mode);
    return hipSuccess;
  });
}
