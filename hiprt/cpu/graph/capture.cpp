#include "graph/capture.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "graph/graph_memory.h"
#include "graph/node.h"
#include "quirks/quirks.h"
#include "runtime/event.h"
#include "runtime/scheduler.h"
#include "runtime/stream.h"

namespace cpu {
namespace {

using Lock = std::lock_guard<std::mutex>;
using Tails = Capture::Tails;

// What an event recorded in a capture stands for. It outlasts the capture, so that the event is an error to use until
// it is recorded again.
struct Mark {
  unsigned long long capture;
  Tails tails;
};

// graph_mutex() guards all but the counts, which let calls pass that no capture concerns.
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

Capture *find_capture(const std::function<bool(const Capture &)> &wanted) {
  for (const auto &capture : state().captures) {
    if (wanted(*capture)) return capture.get();
  }
  return nullptr;
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

bool contains(const Tails &tails, hipGraphNode_t node) {
  return std::find(tails.begin(), tails.end(), node) != tails.end();
}

void merge(Tails *into, const Tails &more) {
  for (hipGraphNode_t handle : more) {
    if (!contains(*into, handle)) into->push_back(handle);
  }
}

void merge_waited(Capture::Member *member, const Tails &more) {
  for (hipGraphNode_t handle : more) {
    if (!contains(member->tails, handle)) member->waited.push_back(handle);
  }
  merge(&member->tails, more);
}

void join(Capture *capture, hipStream_t stream, Tails tails) {
  const std::shared_ptr<Stream> target = find_stream(stream);
  capture->members[stream] = {std::move(tails), {}, target->blocking(), target->device};
  set_capture(stream, capture);
}

hipError_t add(Capture *capture, hipStream_t stream, Action action) {
  Graph *graph = find_graph(capture->graph);
  if (graph->parent && is_memory(action.type)) return hipErrorNotSupported;
  if (frees_same(*graph, action)) return hipErrorInvalidValue;
  Capture::Member &member = capture->members[stream];
  const NodeList dependencies = resolve(&member.tails);
  member.tails.assign(1, graph->add(std::move(action), dependencies)->handle);
  member.waited.clear();
  return hipSuccess;
}

// Checks that the stream is still in the capture that the caller saw; a racing thread may have ended it.
hipError_t check(const Capture *seen, hipStream_t stream) {
  const Capture *capture = capture_with(stream);
  if (!capture || capture != seen) return hipErrorIllegalState;
  return capture->accepts(stream) ? hipSuccess : hipErrorStreamCaptureInvalidated;
}

// Returns what the origin's next operation would come after, as EndCapture sees it. CLR joins what was waited for
// (hip_graph.cpp:1025-1034 of ROCm/clr @f9f995c6d); with the quirk a wait counts from the next captured operation on.
NodeList joined_by(const Capture::Member &origin) {
  Tails tails = origin.tails;
  const auto is_waited = [&](hipGraphNode_t node) { return contains(origin.waited, node); };
  if (quirk(Quirk::CaptureLazyJoin)) tails.erase(std::remove_if(tails.begin(), tails.end(), is_waited), tails.end());
  return resolve(&tails);
}

// Returns whether the work of every forked stream comes before what the origin would do next.
bool all_joined(Capture *capture) {
  NodeList open = joined_by(capture->members[capture->origin]);
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

// Parts with the graph. It returns a graph that is to be thrown away; the caller drops it outside the lock.
std::unique_ptr<Graph> let_go(Capture *capture, bool keep_graph) {
  Graph *graph = find_graph(capture->graph);
  capture->graph = nullptr;
  if (!graph) return nullptr;
  graph->capture = nullptr;
  if (keep_graph || !capture->made_graph) return nullptr;
  retract(*graph);
  return std::unique_ptr<Graph>(graph);
}

void forget(Capture *capture) {
  auto &captures = state().captures;
  captures.erase(std::find_if(captures.begin(), captures.end(), [&](const auto &c) { return c.get() == capture; }));
  state().capture_count.store(captures.size(), std::memory_order_release);
}

// Ends the capture and returns a graph that is to be thrown away, as let_go does.
std::unique_ptr<Graph> end(Capture *capture, bool keep_graph) {
  for (const auto &[stream, member] : capture->members) set_capture(stream, nullptr);
  std::unique_ptr<Graph> dropped = let_go(capture, keep_graph);
  forget(capture);
  return dropped;
}

// Leaves the capture as a failed EndCapture does in CLR (hip_graph.cpp:1012-1066): its streams go on capturing until
// they are destroyed or, if the capture was invalid and has lost its graph, captured anew.
std::unique_ptr<Graph> strand(Capture *capture) {
  capture->listed = false;
  return capture->valid ? nullptr : let_go(capture, false);
}

void leave(Capture *capture, hipStream_t stream) {
  set_capture(stream, nullptr);
  capture->members.erase(stream);
  if (capture->members.empty()) forget(capture);
}

// Joins the stream to the capture that the event was recorded in, or returns why it cannot.
hipError_t wait_for_mark(Capture *own, hipStream_t stream, const Mark &mark) {
  Capture *other = find_capture([&](const Capture &c) { return c.id == mark.capture; });
  if (!other && own) {
    own->valid = false;
    return hipErrorStreamCaptureIsolation;
  }
  if (!other) return hipErrorCapturedEvent;
  if (own == other) {
    merge_waited(&own->members[stream], mark.tails);
    return hipSuccess;
  }
  if (!other->valid) return hipErrorStreamCaptureInvalidated;
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
    // CLR 7 takes an array of nodes for one node (Graph::AddExternalEventWaitNode).
    if (quirk(Quirk::CaptureExternalWaitCrash)) {
      crash(Quirk::CaptureExternalWaitCrash, "hipStreamWaitEvent with hipEventWaitExternal in a capture");
    }
    Action action;
    const hipError_t error = make_event_action(hipGraphNodeTypeWaitEvent, event, &action);
    return error ? error : add(own, stream, std::move(action));
  }
  // CLR before 7 queues the wait outside the graph, where nothing of the capture runs (hip_stream.cpp:475-488).
  const std::shared_ptr<Event> outside = find_event(event);
  if (outside && quirk(Quirk::CaptureHolesLt7)) return enqueue(stream, std::make_shared<EventWaitWork>(outside));
  own->valid = false;
  return hipErrorStreamCaptureIsolation;
}

hipError_t finish(hipStream_t stream, hipGraph_t *out, std::unique_ptr<Graph> *dropped) {
  if (is_legacy(stream)) return hipErrorIllegalState;
  if (!is_valid(stream)) return no_such_handle();
  Capture *capture = capture_with(canonical(stream));
  if (!capture) return hipErrorIllegalState;
  if (capture->origin != canonical(stream)) return hipErrorStreamCaptureUnmatched;
  const bool here = capture->thread == std::this_thread::get_id() && capture->listed;
  if (capture->mode != hipStreamCaptureModeRelaxed && !here) return hipErrorStreamCaptureWrongThread;
  hipError_t error = hipSuccess;
  if (!capture->valid) error = hipErrorStreamCaptureInvalidated;
  else if (!all_joined(capture)) error = hipErrorStreamCaptureUnjoined;
  if (!error) *out = capture->graph;
  *dropped = error && quirk(Quirk::EndcaptureGarbageHandle) ? strand(capture) : end(capture, !error);
  return error;
}

}  // namespace

bool any_capture() { return state().capture_count.load(std::memory_order_acquire) > 0; }

bool any_mark() { return state().mark_count.load(std::memory_order_acquire) > 0; }

const std::vector<std::unique_ptr<Capture>> &captures() { return state().captures; }

Capture *capture_with(hipStream_t stream) {
  return find_capture([&](const Capture &capture) { return capture.members.count(stream) > 0; });
}

unsigned long long marked_by(hipEvent_t event) {
  const auto mark = state().marks.find(event);
  return mark == state().marks.end() ? 0 : mark->second.capture;
}

bool is_capture_mode(int mode) { return mode >= hipStreamCaptureModeGlobal && mode <= hipStreamCaptureModeRelaxed; }

hipError_t capture_add(Capture *capture, hipStream_t stream, std::shared_ptr<Work> work) {
  return capture_add(capture, stream, captured_action(std::move(work)));
}

hipError_t capture_add(Capture *capture, hipStream_t stream, Action action) {
  Lock lock(graph_mutex());
  if (const hipError_t error = check(capture, stream)) return error;
  return add(capture, stream, std::move(action));
}

void capture_attributes(hipStream_t stream, const hipLaunchAttribute *attributes, unsigned count) {
  if (!any_capture()) return;
  Lock lock(graph_mutex());
  const Capture *capture = capture_with(stream);
  Node *node = capture ? find_node(capture->members.at(stream).tails.back()) : nullptr;
  for (unsigned i = 0; node && i < count; ++i) node->attributes[attributes[i].id] = attributes[i].value;
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

// Whether the stream where an event was recorded last, outside of a capture, is captured now.
static bool is_captured_since(hipEvent_t event) {
  const std::shared_ptr<Event> outside = find_event(event);
  const hipStream_t stream = outside ? outside->recorded_on.load() : nullptr;
  const Capture *capture = stream ? capture_with(stream) : nullptr;
  return capture && capture->accepts(stream);
}

bool capture_event_wait(hipStream_t stream, hipEvent_t event, bool external, hipError_t *error) {
  if (!any_capture() && !any_mark()) return false;
  Lock lock(graph_mutex());
  Capture *own = capture_with(stream);
  const auto mark = state().marks.find(event);
  const bool marked = mark != state().marks.end() && !(own && external);
  // Nobody can wait for what such a stream did before (hip_stream.cpp:478 of ROCm/clr @f9f995c6d, and rocm-systems
  // @02bb78cf).
  if (!marked && !external && quirk(Quirk::WaitForCapturedStream) && is_captured_since(event)) {
    *error = hipErrorStreamCaptureIsolation;
    return true;
  }
  if (!own && !marked) return false;
  if (own && !own->accepts(stream)) {
    *error = hipErrorStreamCaptureInvalidated;
    return true;
  }
  *error = marked ? wait_for_mark(own, stream, mark->second) : wait_while_capturing(own, stream, event, external);
  return true;
}

void capture_event_forget(hipEvent_t event) {
  if (!any_mark()) return;
  Lock lock(graph_mutex());
  state().marks.erase(event);
  state().mark_count.store(state().marks.size(), std::memory_order_release);
}

void capture_stream_destroyed(hipStream_t stream) {
  if (!any_capture()) return;
  std::unique_ptr<Graph> dropped;
  Lock lock(graph_mutex());
  Capture *capture = capture_with(stream);
  if (!capture) return;
  capture->valid = false;
  if (capture->origin == stream) dropped = end(capture, false);
  else leave(capture, stream);
}

hipError_t begin_capture(hipStream_t stream, int mode, hipGraph_t into, const hipGraphNode_t *dependencies,
                         size_t count) {
  if (!is_capture_mode(mode)) return hipErrorInvalidValue;
  if (is_legacy(stream)) return hipErrorStreamCaptureUnsupported;
  if (!is_valid(stream)) return no_such_handle();
  stream = canonical(stream);
  Lock lock(graph_mutex());
  if (Capture *old = capture_with(stream)) {
    if (old->listed || old->valid || old->origin != stream) return hipErrorIllegalState;
    leave(old, stream);
  }
  auto made = into ? nullptr : std::make_unique<Graph>();
  Graph *graph = made ? made.get() : find_graph(into);
  if (!graph || graph->capture) return hipErrorInvalidValue;
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

hipError_t end_capture(hipStream_t stream, hipGraph_t *out) {
  if (!out) return hipErrorInvalidValue;
  std::unique_ptr<Graph> dropped;
  Lock lock(graph_mutex());
  *out = nullptr;
  const hipError_t error = finish(stream, out, &dropped);
  // CLR stores an uninitialised pointer on every error but one (hip_graph.cpp:1069). This value is never a live handle.
  if (error && error != hipErrorStreamCaptureInvalidated && quirk(Quirk::EndcaptureGarbageHandle)) {
    *out = reinterpret_cast<hipGraph_t>(uintptr_t{0xFBFBFBFBFBFBFBF0});
  }
  return error;
}

hipError_t capture_info(hipStream_t stream, CaptureInfo *info) {
  if (!is_valid(stream)) return no_such_handle();
  stream = canonical(stream);
  Capture *capture = capture_with(stream);
  if (!capture) return hipSuccess;
  const bool active = capture->accepts(stream);
  info->status = active ? hipStreamCaptureStatusActive : hipStreamCaptureStatusInvalidated;
  if (!active) return hipSuccess;
  info->id = capture->id;
  info->graph = capture->graph;
  resolve(&capture->members[stream].tails);
  info->tails = &capture->members[stream].tails;
  return hipSuccess;
}

hipError_t update_capture(hipStream_t stream, const hipGraphNode_t *dependencies, size_t count, unsigned flags) {
  if (flags != hipStreamAddCaptureDependencies && flags != hipStreamSetCaptureDependencies) return hipErrorInvalidValue;
  if (!is_valid(stream)) return no_such_handle();
  Lock lock(graph_mutex());
  Capture *capture = capture_with(canonical(stream));
  if (!capture) return hipErrorIllegalState;
  if (!capture->accepts(canonical(stream))) return hipErrorStreamCaptureInvalidated;
  NodeList nodes;
  const hipError_t error = find_dependencies(*find_graph(capture->graph), dependencies, count, &nodes);
  if (error) return error;
  Tails &tails = capture->members[canonical(stream)].tails;
  if (flags == hipStreamSetCaptureDependencies) tails.clear();
  merge(&tails, Tails(dependencies, dependencies + count));
  return hipSuccess;
}

}  // namespace cpu
