// Stream capture: work submitted to a capturing stream becomes nodes of a graph, chained by each stream's tail nodes.
//
// What HIP forbids while streams capture is in capture_rules.h. The functions below take graph_mutex() unless they say
// that the caller holds it; the caller holds no other lock. One that returns an error has already invalidated the
// captures that HIP says it must.
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
  // A stream that takes part, with the nodes that its next operation depends on.
  struct Member {
    Tails tails;
    Tails waited;  // those of the tails that event waits added since the last operation
    bool blocking;
    int device;
  };

  // Returns whether the stream's work still becomes nodes.
  bool accepts(hipStream_t stream) const { return graph && (valid || (forks_go_on && stream != origin)); }

  unsigned long long id = 0;
  hipGraph_t graph = nullptr;
  bool made_graph = true;  // false: the graph is the application's (hipStreamBeginCaptureToGraph)
  hipStream_t origin = nullptr;
  hipStreamCaptureMode mode = hipStreamCaptureModeGlobal;
  std::thread::id thread = std::this_thread::get_id();
  bool valid = true;
  bool forks_go_on = false;  // it was invalidated in CLR's way, which marks only the origin stream
  bool listed = true;        // false: EndCapture failed in CLR's way, and no rule sees this capture any more
  std::map<hipStream_t, Member> members;
};

// Return whether there is any capture, and any event that was recorded in one. They take no lock, so that calls which
// no capture concerns pass at once.
bool any_capture();
bool any_mark();
// Return the captures, and the one that a stream takes part in, or null. The caller holds graph_mutex().
const std::vector<std::unique_ptr<Capture>> &captures();
Capture *capture_with(hipStream_t stream);
// Returns the id of the capture, over or not, in which the event was recorded, or 0. The caller holds graph_mutex().
unsigned long long marked_by(hipEvent_t event);

bool is_capture_mode(int mode);
// `into` is the graph that takes the nodes, after its nodes `dependencies`; null stands for a new graph.
hipError_t begin_capture(hipStream_t stream, int mode, hipGraph_t into, const hipGraphNode_t *dependencies,
                         size_t count);
hipError_t end_capture(hipStream_t stream, hipGraph_t *out);

struct CaptureInfo {
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  unsigned long long id = 0;
  hipGraph_t graph = nullptr;
  const Capture::Tails *tails = nullptr;
};
// Tells what a stream other than the legacy one captures. The caller holds graph_mutex().
hipError_t capture_info(hipStream_t stream, CaptureInfo *info);
// Adds to, or replaces, the nodes that the stream's next operation depends on.
hipError_t update_capture(hipStream_t stream, const hipGraphNode_t *dependencies, size_t count, unsigned flags);

// Adds a node. `capture` is what capture_of(stream) was. If that capture has ended since, the result is 901 or 400.
hipError_t capture_add(Capture *capture, hipStream_t stream, std::shared_ptr<Work> work);
hipError_t capture_add(Capture *capture, hipStream_t stream, Action action);
// Gives the node that the last launch on a stream became the attributes of the launch; without a capture it does nothing.
void capture_attributes(hipStream_t stream, const hipLaunchAttribute *attributes, unsigned count);

// Does hipEventRecord on a capturing stream: the event now means the stream's tail nodes. With `external`, a flag of
// HIP's, the record becomes a node.
hipError_t capture_event_record(Capture *capture, hipStream_t stream, hipEvent_t event, bool external);
// Does hipStreamWaitEvent if the stream captures or the event was recorded in a capture: the stream joins that capture,
// or *error says why not. Returns false if neither holds; an ordinary wait is right then.
bool capture_event_wait(hipStream_t stream, hipEvent_t event, bool external, hipError_t *error);
// Forgets the point of a capture that an event stands for, because it is recorded outside one or destroyed.
void capture_event_forget(hipEvent_t event);
// Takes a stream that is being destroyed out of its capture, which becomes invalid.
void capture_stream_destroyed(hipStream_t stream);

}  // namespace cpu
