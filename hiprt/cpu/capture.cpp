#include "capture.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "device.h"
#include "event.h"
#include "graph.h"
#include "graph_memory.h"
#include "node.h"
#include "number.h"
#include "scheduler.h"
#include "status.h"
#include "stream.h"

namespace cpu {

struct Capture {
  // A stream that takes part, and the nodes that its next operation depends on.
  struct Member {
    std::vector<hipGraphNode_t> tails;
    bool blocking;
    int device;
  };

  unsigned long long id = 0;
  hipGraph_t graph = nullptr;
  bool made_graph = true;  // false: hipStreamBeginCaptureToGraph
  hipStream_t origin = nullptr;
  hipStreamCaptureMode mode = hipStreamCaptureModeGlobal;
  std::thread::id thread = std::this_thread::get_id();
  bool valid = true;
  std::map<hipStream_t, Member> members;
};

namespace {

using Lock = std::lock_guard<std::mutex>;
using Tails = std::vector<hipGraphNode_t>;

// What an event recorded in a capture stands for. It outlasts the capture: the event is no good until recorded again.
struct Mark {
  unsigned long long capture;
  Tails tails;
};

// Guarded by graph_mutex(); the counts let calls pass that no capture concerns.
struct State {
  std::vector<std::unique_ptr<Capture>> captures;
  std::unordered_map<hipEvent_t, Mark> marks;
  std::atomic<size_t> capture_count{0};
  std::atomic<size_t> mark_count{0};
  unsigned long long last_id = 0;
};

State &state() {
  static State *instance = new State;
  return *instance;
}

thread_local hipStreamCaptureMode thread_mode = hipStreamCaptureModeGlobal;

bool idle() { return state().capture_count.load(std::memory_order_acquire) == 0; }

Capture *find_capture(const std::function<bool(const Capture &)> &wanted) {
  for (const auto &capture : state().captures) {
    if (wanted(*capture)) return capture.get();
  }
  return nullptr;
}

Capture *capture_with(hipStream_t stream) {
  return find_capture([&](const Capture &capture) { return capture.members.count(stream) > 0; });
}

// Invalidate every valid capture that the predicate names; whether there was one.
bool invalidate_if(const std::function<bool(const Capture &)> &wanted) {
  bool any = false;
  for (const auto &capture : state().captures) {
    if (!capture->valid || !wanted(*capture)) continue;
    capture->valid = false;
    any = true;
  }
  return any;
}

// The rule of hipThreadExchangeStreamCaptureMode for calls that are unsafe beside a capture.
bool forbids_unsafe(const Capture &capture) {
  if (thread_mode == hipStreamCaptureModeRelaxed) return false;
  if (capture.thread == std::this_thread::get_id()) return capture.mode != hipStreamCaptureModeRelaxed;
  return thread_mode == hipStreamCaptureModeGlobal && capture.mode == hipStreamCaptureModeGlobal;
}

// The legacy stream would make a capturing stream of its device depend on it.
bool forbids_legacy(const Capture &capture) {
  return std::any_of(capture.members.begin(), capture.members.end(), [](const auto &entry) {
    return entry.second.blocking && entry.second.device == current_device();
  });
}

NodeList resolve(Tails *tails) {
  NodeList nodes;
  for (hipGraphNode_t handle : *tails) {
    if (Node *node = find_node(handle)) nodes.push_back(node);
  }
  tails->clear();
  for (const Node *node : nodes) tails->push_back(node->handle);
  return nodes;
}

void merge(Tails *into, const Tails &more) {
  for (hipGraphNode_t handle : more) {
    if (std::find(into->begin(), into->end(), handle) == into->end()) into->push_back(handle);
  }
}

void join(Capture *capture, hipStream_t stream, Tails tails) {
  const std::shared_ptr<Stream> target = find_stream(stream);
  capture->members[stream] = {std::move(tails), target->blocking(), target->device};
  set_capture(stream, capture);
}

hipError_t add(Capture *capture, hipStream_t stream, Action action) {
  Graph *graph = find_graph(capture->graph);
  if (frees_same(*graph, action)) return hipErrorInvalidValue;
  Tails &tails = capture->members[stream].tails;
  const NodeList dependencies = resolve(&tails);
  tails.assign(1, graph->add(std::move(action), dependencies)->handle);
  return hipSuccess;
}

// The live capture that the stream is in, checked; a racing thread may have ended the one the caller saw.
hipError_t check(const Capture *seen, hipStream_t stream) {
  const Capture *capture = capture_with(stream);
  if (!capture || capture != seen) return hipErrorIllegalState;
  return capture->valid ? hipSuccess : hipErrorStreamCaptureInvalidated;
}

// Whether every forked stream's work comes before what the origin would do next.
bool all_joined(Capture *capture) {
  NodeList open = resolve(&capture->members[capture->origin].tails);
  std::unordered_set<const Node *> before(open.begin(), open.end());
  while (!open.empty()) {
    const Node *node = open.back();
    open.pop_back();
    for (Node *from : node->dependencies) {
      if (before.insert(from).second) open.push_back(from);
    }
  }
  for (auto &[stream, member] : capture->members) {
    for (const Node *tail : resolve(&member.tails)) {
      if (!before.count(tail)) return false;
    }
  }
  return true;
}

// Let all streams go. Returns the graph if it is to be thrown away; the caller drops it outside the lock.
std::unique_ptr<Graph> end(Capture *capture, bool keep_graph) {
  for (const auto &[stream, member] : capture->members) set_capture(stream, nullptr);
  std::unique_ptr<Graph> dropped;
  Graph *graph = find_graph(capture->graph);
  graph->capture = nullptr;
  if (capture->made_graph && !keep_graph) {
    retract(*graph);
    dropped.reset(graph);
  }
  auto &captures = state().captures;
  captures.erase(std::find_if(captures.begin(), captures.end(), [&](const auto &c) { return c.get() == capture; }));
  state().capture_count.store(captures.size(), std::memory_order_release);
  return dropped;
}

// The wait joins the stream to the event's capture, or is an error.
hipError_t wait_for_mark(Capture *own, hipStream_t stream, const Mark &mark) {
  Capture *other = find_capture([&](const Capture &c) { return c.id == mark.capture; });
  if (!other && own) {
    own->valid = false;
    return hipErrorStreamCaptureIsolation;
  }
  if (!other) return hipErrorCapturedEvent;
  if (!other->valid) return hipErrorStreamCaptureInvalidated;
  if (own == other) {
    merge(&own->members[stream].tails, mark.tails);
    return hipSuccess;
  }
  if (own || is_legacy(stream)) {
    other->valid = false;
    if (own) own->valid = false;
    return own ? hipErrorStreamCaptureMerge : hipErrorStreamCaptureImplicit;
  }
  join(other, stream, mark.tails);
  return hipSuccess;
}

hipError_t wait_while_capturing(Capture *own, hipStream_t stream, hipEvent_t event, bool external) {
  if (external) {
    Action action;
    const hipError_t error = make_event_action(hipGraphNodeTypeWaitEvent, event, &action);
    return error ? error : add(own, stream, std::move(action));
  }
  own->valid = false;
  return hipErrorStreamCaptureIsolation;
}

}  // namespace

hipError_t capture_add(Capture *capture, hipStream_t stream, std::shared_ptr<Work> work) {
  return capture_add(capture, stream, captured_action(std::move(work)));
}

hipError_t capture_add(Capture *capture, hipStream_t stream, Action action) {
  Lock lock(graph_mutex());
  if (const hipError_t error = check(capture, stream)) return error;
  return add(capture, stream, std::move(action));
}

hipError_t capture_forbids_alloc() {
  if (idle()) return hipSuccess;
  Lock lock(graph_mutex());
  return invalidate_if(forbids_unsafe) ? hipErrorStreamCaptureUnsupported : hipSuccess;
}

hipError_t capture_forbids_sync(hipStream_t stream) {
  if (idle()) return hipSuccess;
  if (const hipError_t error = capture_forbids_on(stream)) return error;
  Lock lock(graph_mutex());
  if (is_legacy(stream) && invalidate_if(forbids_legacy)) return hipErrorStreamCaptureImplicit;
  return invalidate_if(forbids_unsafe) ? hipErrorStreamCaptureUnsupported : hipSuccess;
}

hipError_t capture_forbids_device_sync() {
  if (idle()) return hipSuccess;
  Lock lock(graph_mutex());
  const auto all = [](const Capture &) { return true; };
  return invalidate_if(all) ? hipErrorStreamCaptureUnsupported : hipSuccess;
}

hipError_t capture_forbids_implicit() {
  if (idle()) return hipSuccess;
  Lock lock(graph_mutex());
  const auto forbids = [](const Capture &capture) { return forbids_legacy(capture) || forbids_unsafe(capture); };
  return invalidate_if(forbids) ? hipErrorStreamCaptureImplicit : hipSuccess;
}

hipError_t capture_forbids_legacy() {
  if (idle()) return hipSuccess;
  Lock lock(graph_mutex());
  return invalidate_if(forbids_legacy) ? hipErrorStreamCaptureImplicit : hipSuccess;
}

hipError_t capture_forbids_on(hipStream_t stream) {
  if (idle()) return hipSuccess;
  Lock lock(graph_mutex());
  Capture *capture = capture_with(stream);
  if (!capture) return hipSuccess;
  if (!capture->valid) return hipErrorStreamCaptureInvalidated;
  capture->valid = false;
  return hipErrorStreamCaptureUnsupported;
}

hipError_t capture_forbids_event(hipEvent_t event) {
  if (idle() && state().mark_count.load(std::memory_order_acquire) == 0) return hipSuccess;
  Lock lock(graph_mutex());
  const auto mark = state().marks.find(event);
  if (mark != state().marks.end()) {
    invalidate_if([&](const Capture &capture) { return capture.id == mark->second.capture; });
    return hipErrorCapturedEvent;
  }
  return invalidate_if(forbids_unsafe) ? hipErrorStreamCaptureUnsupported : hipSuccess;
}

hipError_t capture_event_record(Capture *capture, hipStream_t stream, hipEvent_t event, bool external) {
  Lock lock(graph_mutex());
  if (const hipError_t error = check(capture, stream)) return error;
  if (external) {
    Action action;
    const hipError_t error = make_event_action(hipGraphNodeTypeEventRecord, event, &action);
    return error ? error : add(capture, stream, std::move(action));
  }
  state().marks[event] = {capture->id, capture->members[stream].tails};
  state().mark_count.store(state().marks.size(), std::memory_order_release);
  return hipSuccess;
}

bool capture_event_wait(hipStream_t stream, hipEvent_t event, bool external, hipError_t *error) {
  if (idle() && state().mark_count.load(std::memory_order_acquire) == 0) return false;
  Lock lock(graph_mutex());
  Capture *own = capture_with(stream);
  const auto mark = state().marks.find(event);
  const bool marked = mark != state().marks.end() && !(own && external);
  if (!own && !marked) return false;
  if (own && !own->valid) {
    *error = hipErrorStreamCaptureInvalidated;
    return true;
  }
  *error = marked ? wait_for_mark(own, stream, mark->second) : wait_while_capturing(own, stream, event, external);
  return true;
}

void capture_event_forget(hipEvent_t event) {
  if (state().mark_count.load(std::memory_order_acquire) == 0) return;
  Lock lock(graph_mutex());
  state().marks.erase(event);
  state().mark_count.store(state().marks.size(), std::memory_order_release);
}

void capture_stream_destroyed(hipStream_t stream) {
  if (idle()) return;
  std::unique_ptr<Graph> dropped;
  Lock lock(graph_mutex());
  Capture *capture = capture_with(stream);
  if (!capture) return;
  capture->valid = false;
  if (capture->origin == stream) {
    dropped = end(capture, false);
  } else {
    set_capture(stream, nullptr);
    capture->members.erase(stream);
  }
}

namespace {

bool is_mode(int mode) { return mode >= hipStreamCaptureModeGlobal && mode <= hipStreamCaptureModeRelaxed; }

hipError_t begin(hipStream_t stream, int mode, hipGraph_t into, const hipGraphNode_t *dependencies,
                 size_t count) {
  if (!is_mode(mode)) return hipErrorInvalidValue;
  if (is_legacy(stream)) return hipErrorStreamCaptureUnsupported;
  if (!is_valid(stream)) return hipErrorInvalidHandle;
  stream = canonical(stream);
  Lock lock(graph_mutex());
  if (capture_with(stream)) return hipErrorIllegalState;
  auto made = into ? nullptr : std::make_unique<Graph>();
  Graph *graph = made ? made.get() : find_graph(into);
  if (!graph || graph->capture || graph->parent) return hipErrorInvalidValue;
  NodeList roots;
  if (const hipError_t error = find_dependencies(*graph, dependencies, count, &roots)) return error;
  auto capture = std::make_unique<Capture>();
  if (made) publish(*made);
  capture->id = ++state().last_id;
  capture->graph = graph->handle;
  capture->made_graph = made != nullptr;
  capture->origin = stream;
  capture->mode = static_cast<hipStreamCaptureMode>(mode);
  join(capture.get(), stream, Tails(dependencies, dependencies + count));
  graph->capture = capture.get();
  state().captures.push_back(std::move(capture));
  state().capture_count.store(state().captures.size(), std::memory_order_release);
  made.release();
  return hipSuccess;
}

hipError_t finish(hipStream_t stream, hipGraph_t *out) {
  if (!out) return hipErrorInvalidValue;
  if (is_legacy(stream)) return hipErrorIllegalState;
  if (!is_valid(stream)) return hipErrorInvalidHandle;
  std::unique_ptr<Graph> dropped;
  Lock lock(graph_mutex());
  *out = nullptr;
  Capture *capture = capture_with(canonical(stream));
  if (!capture) return hipErrorIllegalState;
  if (capture->origin != canonical(stream)) return hipErrorStreamCaptureUnmatched;
  if (capture->mode != hipStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id()) {
    return hipErrorStreamCaptureWrongThread;
  }
  hipError_t error = hipSuccess;
  if (!capture->valid) error = hipErrorStreamCaptureInvalidated;
  else if (!all_joined(capture)) error = hipErrorStreamCaptureUnjoined;
  if (!error) *out = capture->graph;
  dropped = end(capture, !error);
  return error;
}

struct Info {
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  unsigned long long id = 0;
  hipGraph_t graph = nullptr;
  const Tails *tails = nullptr;
};

hipError_t inform(hipStream_t stream, Info *info) {
  if (!is_valid(stream)) return hipErrorInvalidHandle;
  if (is_legacy(stream)) {
    return find_capture(forbids_legacy) ? hipErrorStreamCaptureImplicit : hipSuccess;
  }
  stream = canonical(stream);
  Capture *capture = capture_with(stream);
  if (!capture) return hipSuccess;
  info->status = capture->valid ? hipStreamCaptureStatusActive : hipStreamCaptureStatusInvalidated;
  if (!capture->valid) return hipSuccess;
  info->id = capture->id;
  info->graph = capture->graph;
  resolve(&capture->members[stream].tails);
  info->tails = &capture->members[stream].tails;
  return hipSuccess;
}

hipError_t update(hipStream_t stream, const hipGraphNode_t *dependencies, size_t count, unsigned flags) {
  if (flags != hipStreamAddCaptureDependencies && flags != hipStreamSetCaptureDependencies) return hipErrorInvalidValue;
  if (!is_valid(stream)) return hipErrorInvalidHandle;
  Lock lock(graph_mutex());
  Capture *capture = capture_with(canonical(stream));
  if (!capture) return hipErrorIllegalState;
  if (!capture->valid) return hipErrorStreamCaptureInvalidated;
  NodeList nodes;
  const hipError_t error = find_dependencies(*find_graph(capture->graph), dependencies, count, &nodes);
  if (error) return error;
  Tails &tails = capture->members[canonical(stream)].tails;
  if (flags == hipStreamSetCaptureDependencies) tails.clear();
  merge(&tails, Tails(dependencies, dependencies + count));
  return hipSuccess;
}

}  // namespace
}  // namespace cpu

using namespace cpu;

hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode) {
  return api([&] { return begin(stream, number_of(mode), nullptr, nullptr, 0); });
}

hipError_t hipStreamBeginCaptureToGraph(hipStream_t stream, hipGraph_t graph, const hipGraphNode_t *dependencies,
                                        const hipGraphEdgeData *dependencyData, size_t numDependencies,
                                        hipStreamCaptureMode mode) {
  return api([&]() -> hipError_t {
    if (!graph || (dependencies && numDependencies == 0)) return hipErrorInvalidValue;
    if (dependencyData) return hipErrorNotSupported;
    return begin(stream, number_of(mode), graph, dependencies, numDependencies);
  });
}

hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t *pGraph) {
  return api([&] { return finish(stream, pGraph); });
}

hipError_t hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus *pCaptureStatus) {
  return api([&]() -> hipError_t {
    if (!pCaptureStatus) return hipErrorInvalidValue;
    Lock lock(graph_mutex());
    Info info;
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
    Info info;
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
  return api([&] { return update(stream, dependencies, numDependencies, flags); });
}

hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode *mode) {
  return api([&]() -> hipError_t {
    if (!mode || !is_mode(number_of(*mode))) return hipErrorInvalidValue;
    std::swap(*mode, thread_mode);
    return hipSuccess;
  });
}
