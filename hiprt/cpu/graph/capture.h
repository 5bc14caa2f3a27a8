// Stream capture: work submitted to a capturing stream becomes nodes of a graph, chained by each stream's tail nodes.
//
// What HIP forbids while streams capture is in capture_rules.h. The calls below take graph_mutex() unless they say that the
// caller holds it; call them without holding another lock. One that returns an error has already invalidated the captures
// that HIP says it must.
#pragma once

#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "graph/graph.h"
#include "hip/hip_runtime_api.h"
#include "runtime/work.h"

namespace cpu {

struct Capture {
  using Tails = std::vector<hipGraphNode_t>;
  // A stream that takes part, and the nodes that its next operation depends on.
  struct Member {
    Tails tails;
    Tails waited;  // those of the tails that came by event waits since the last operation
    bool blocking;
    int device;
  };

  // Whether the stream's work still becomes nodes.
  bool accepts(hipStream_t stream) const { return graph && (valid || (forks_go_on && stream != origin)); }

  unsigned long long id = 0;
  hipGraph_t graph = nullptr;
  bool made_graph = true;  // false: hipStreamBeginCaptureToGraph
  hipStream_t origin = nullptr;
  hipStreamCaptureMode mode = hipStreamCaptureModeGlobal;
  std::thread::id thread = std::this_thread::get_id();
  bool valid = true;
  bool forks_go_on = false;  // invalidated in CLR's way, which marks the origin stream only
  bool listed = true;        // false: EndCapture failed in CLR's way, and no rule counts this capture any more
  std::map<hipStream_t, Member> members;
};

// Whether there is any capture, and any event that was recorded in one; lock-free, so that calls that no capture concerns
// pass at once.
bool any_capture();
bool any_mark();
// The captures, and the one that a stream takes part in, or null. The caller holds graph_mutex().
const std::vector<std::unique_ptr<Capture>> &captures();
Capture *capture_with(hipStream_t stream);
// The id of the capture, over or not, in which the event was recorded; 0 if in none. The caller holds graph_mutex().
unsigned long long marked_by(hipEvent_t event);

bool is_capture_mode(int mode);
// into: the graph that takes the nodes, after its nodes `dependencies`; null for a new graph.
hipError_t begin_capture(hipStream_t stream, int mode, hipGraph_t into, const hipGraphNode_t *dependencies, size_t count);
hipError_t end_capture(hipStream_t stream, hipGraph_t *out);

struct CaptureInfo {
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  unsigned long long id = 0;
  hipGraph_t graph = nullptr;
  const Capture::Tails *tails = nullptr;
};
// What a stream other than the legacy one captures. The caller holds graph_mutex().
hipError_t capture_info(hipStream_t stream, CaptureInfo *info);
// Adds to, or replaces, the nodes that the stream's next operation depends on.
hipError_t update_capture(hipStream_t stream, const hipGraphNode_t *dependencies, size_t count, unsigned flags);

// Adds a node. capture: what capture_of(stream) was; the capture may have ended since: then 901 or 400, never a crash.
hipError_t capture_add(Capture *capture, hipStream_t stream, std::shared_ptr<Work> work);
hipError_t capture_add(Capture *capture, hipStream_t stream, Action action);

// hipEventRecord on a capturing stream: the event now means the stream's tail; external (a flag of HIP's): a node.
hipError_t capture_event_record(Capture *capture, hipStream_t stream, hipEvent_t event, bool external);
// hipStreamWaitEvent, called for every stream (capturing or not). True: the wait was dealt with (joined the capture, or
// *error); false: neither side captures, queue an ordinary wait.
bool capture_event_wait(hipStream_t stream, hipEvent_t event, bool external, hipError_t *error);
// The event is recorded outside a capture, or destroyed: it no longer stands for a point of a capture.
void capture_event_forget(hipEvent_t event);
// The stream is being destroyed: a capture it belongs to is invalidated and lets go of it.
void capture_stream_destroyed(hipStream_t stream);

}  // namespace cpu
