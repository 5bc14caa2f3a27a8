#include "graph/exec.h"

#include <algorithm>
#include <cstdio>

#include "graph/capture.h"
#include "handles.h"
#include "quirks/quirks.h"
#include "runtime/status.h"
#include "runtime/stream.h"

namespace cpu {
namespace {

using Lock = std::lock_guard<std::mutex>;

Handles<hipGraphExec_t, Exec> &registry() {
  static auto *instance = new Handles<hipGraphExec_t, Exec>;
  return *instance;
}

// A node on a cycle of the graph or of a graph inside it, or null.
const Node *find_cycle(const Graph &graph) {
  std::vector<bool> ordered(graph.nodes.size());
  for (const Node *node : topological_order(graph)) ordered[node->index] = true;
  for (const auto &node : graph.nodes) {
    if (!ordered[node->index]) return node.get();
    const Node *inner = node->action.child ? find_cycle(*node->action.child) : nullptr;
    if (inner) return inner;
  }
  return nullptr;
}

void index_nodes(const Graph &graph, Exec *exec) {
  for (const auto &node : graph.nodes) {
    exec->nodes.emplace(node->origin, node.get());
    if (node->action.child) index_nodes(*node->action.child, exec);
  }
}

// Whether defects keep plans beside those of launches in flight.
bool are_plans_kept() {
  return quirk(Quirk::UpdateInflightVisible) || quirk(Quirk::HostParamsLive) || quirk(Quirk::DisabledListStale);
}

hipError_t take_kernargs(const Graph &graph, Kernargs *kernargs) {
  for (const auto &node : graph.nodes) {
    const Graph *child = node->action.child.get();
    const hipError_t error = child ? take_kernargs(*child, kernargs) : kernargs->take(node->action, false);
    if (error) return error;
  }
  return hipSuccess;
}

struct Outcome {
  hipGraphInstantiateResult result = hipGraphInstantiateError;
  hipGraphNode_t node = nullptr;
};

hipError_t instantiate(hipGraphExec_t *out, hipGraph_t handle, unsigned long long flags, Outcome *outcome) {
  Lock lock(graph_mutex());
  Graph *graph = find_graph(handle);
  if (!graph) return hipErrorInvalidValue;
  if (graph->capture) return hipErrorIllegalState;
  if (const Node *node = find_cycle(*graph)) {
    *outcome = {hipGraphInstantiateInvalidStructure, node->handle};
    return hipErrorInvalidValue;
  }
  const bool memory = graph->has_memory_nodes();
  if (memory && graph->instantiated) {
    outcome->result = hipGraphInstantiateNodeOperationNotSupported;
    return hipErrorNotSupported;
  }
  auto exec = std::make_unique<Exec>();
  exec->flags = flags;
  exec->source = handle;
  exec->graph = copy_graph(*graph);
  index_nodes(*exec->graph, exec.get());
  if (const hipError_t error = take_kernargs(*exec->graph, &exec->kernargs)) return error;
  exec->order = make_order(*exec->graph);
  exec->plan = make_plan(*exec->graph, *exec->order);
  if (are_plans_kept()) exec->series->publish(exec->plan);
  exec->memory = memory_effects(*exec->graph);
  exec->handle = registry().add(exec.get());
  graph->instantiated = memory;
  outcome->result = hipGraphInstantiateSuccess;
  *out = exec.release()->handle;
  return hipSuccess;
}

hipError_t launch(hipGraphExec_t handle, hipStream_t stream) {
  if (!is_valid(stream)) return hipErrorInvalidHandle;
  if (const hipError_t error = capture_forbids_on(canonical(stream))) return error;
  if (is_legacy(stream)) {
    if (const hipError_t error = capture_forbids_legacy()) return error;
  }
  Lock lock(graph_mutex());
  Exec *exec = find_exec(handle);
  if (!exec) return hipErrorInvalidValue;
  const bool auto_free = exec->flags & hipGraphInstantiateFlagAutoFreeOnLaunch;
  if (auto_free && quirk(Quirk::AutofreeDeviceWide)) {
    if (const hipError_t error = free_all_graph_memory(stream)) return error;
  }
  if (const hipError_t error = queue_effects(exec->memory, auto_free)) return error;
  return queue_launch(stream, exec->order, exec->launch_plan(), exec->series);
}

// hipGraphInstantiate and WithFlags store a local that a failure leaves uninitialised: hip_graph.cpp:1363-1380.
hipGraphExec_t garbage() { return reinterpret_cast<hipGraphExec_t>(uintptr_t{0xFBFBFBFBFBFBFBF0}); }

void spoil_handle(hipError_t error, hipGraphExec_t *out) {
  if (error && quirk(Quirk::InstantiateGarbageHandle)) *out = garbage();
}

hipError_t upload(hipGraphExec_t handle, hipStream_t stream) {
  if (!is_valid(stream)) return hipErrorInvalidHandle;
  if (const hipError_t error = capture_forbids_on(canonical(stream))) return error;
  Lock lock(graph_mutex());
  return find_exec(handle) ? hipSuccess : hipErrorInvalidValue;
}

}  // namespace

Exec *find_exec(hipGraphExec_t handle) { return registry().find(handle); }

Node *Exec::find(hipGraphNode_t source_node) const {
  const auto it = nodes.find(source_node);
  return it == nodes.end() || !find_node(source_node) ? nullptr : it->second;
}

template <class Change>
void Exec::change_plan(Change change) {
  const bool kept = are_plans_kept();
  if (kept || plan->launches.load(std::memory_order_acquire) > 0) plan = std::make_shared<Plan>(*plan);
  change(*plan);
  if (kept) series->publish(plan);
}

hipError_t Exec::replace(Node *node, Action action, bool refresh) {
  if (refresh) {
    const hipError_t error = kernargs.take(action, true);
    // The status of UpdateAQLPacket is dropped: rs#10714.
    if (error && !quirk(Quirk::UpdateSwallowError)) return error;
    refresh = error == hipSuccess;
  }
  const bool is_stale = !refresh && is_packet(action);
  node->action = std::move(action);
  if (is_stale || !node->enabled) return hipSuccess;
  change_plan([&](Plan &target) {
    std::shared_ptr<Work> &work = target.works[node->step];
    // CPU writes to arguments in device memory are flushed at instantiate only: section 2.7.
    if (quirk(Quirk::UpdateNoFlush) && is_packet(node->action)) unflushed_.emplace_back(node->step, work);
    work = node->action.work;
  });
  return hipSuccess;
}

void Exec::enable(Node *node, bool enabled) {
  change_plan([&](Plan &target) {
    target.works[node->step] = enabled ? node->action.work : nullptr;
    target.disabled[node->step] = !enabled;
  });
  node->enabled = enabled;
}

void Exec::use(const UserRefs &users) {
  change_plan([&](Plan &target) { target.users = users; });
}

std::shared_ptr<Plan> Exec::launch_plan() {
  std::shared_ptr<Plan> now = plan;
  if (quirk(Quirk::DisabledListStale)) {
    // Packet lists without the disabled nodes are cached by their size alone (O6).
    const auto disabled = static_cast<size_t>(std::count(now->disabled.begin(), now->disabled.end(), true));
    if (disabled) now = filtered_.try_emplace(disabled, now).first->second;
  }
  if (!unflushed_.empty() && by_chance()) {
    now = std::make_shared<Plan>(*now);
    for (auto it = unflushed_.rbegin(); it != unflushed_.rend(); ++it) now->works[it->first] = it->second;
  }
  unflushed_.clear();
  return now;
}

}  // namespace cpu

using namespace cpu;

hipError_t hipGraphInstantiate(hipGraphExec_t *pGraphExec, hipGraph_t graph, hipGraphNode_t *pErrorNode,
                               char *pLogBuffer, size_t bufferSize) {
  return api([&]() -> hipError_t {
    if (!pGraphExec) return hipErrorInvalidValue;
    Outcome outcome;
    const hipError_t error = instantiate(pGraphExec, graph, 0, &outcome);
    spoil_handle(error, pGraphExec);
    if (pErrorNode) *pErrorNode = outcome.node;
    if (pLogBuffer && bufferSize > 0) {
      const char *text = outcome.node ? "the graph has a cycle" : "";
      std::snprintf(pLogBuffer, bufferSize, "%s", text);
    }
    return error;
  });
}

hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t *pGraphExec, hipGraph_t graph, unsigned long long flags) {
  return api([&]() -> hipError_t {
    constexpr unsigned long long kKnown = hipGraphInstantiateFlagAutoFreeOnLaunch |
                                          hipGraphInstantiateFlagDeviceLaunch |
                                          hipGraphInstantiateFlagUseNodePriority;
    if (!pGraphExec) return hipErrorInvalidValue;
    Outcome outcome;
    const bool is_known = (flags & ~kKnown) == 0;
    const hipError_t error = is_known ? instantiate(pGraphExec, graph, flags, &outcome) : hipErrorInvalidValue;
    spoil_handle(error, pGraphExec);
    return error;
  });
}

hipError_t hipGraphInstantiateWithParams(hipGraphExec_t *pGraphExec, hipGraph_t graph,
                                         hipGraphInstantiateParams *instantiateParams) {
  return api([&]() -> hipError_t {
    constexpr unsigned long long kKnown =
        hipGraphInstantiateFlagAutoFreeOnLaunch | hipGraphInstantiateFlagUpload | hipGraphInstantiateFlagDeviceLaunch |
        hipGraphInstantiateFlagUseNodePriority;
    if (!pGraphExec || !instantiateParams) return hipErrorInvalidValue;
    Outcome outcome;
    hipError_t error = hipErrorInvalidValue;
    const unsigned long long flags = instantiateParams->flags;
    if ((flags & ~kKnown) == 0) error = instantiate(pGraphExec, graph, flags, &outcome);
    instantiateParams->result_out = outcome.result;
    instantiateParams->errNode_out = outcome.node;
    if (error || !(flags & hipGraphInstantiateFlagUpload)) return error;
    return upload(*pGraphExec, instantiateParams->uploadStream);
  });
}

hipError_t hipGraphLaunch(hipGraphExec_t graphExec, hipStream_t stream) {
  return api([&] { return launch(graphExec, stream); });
}

hipError_t hipGraphUpload(hipGraphExec_t graphExec, hipStream_t stream) {
  return api([&] { return upload(graphExec, stream); });
}

hipError_t hipGraphExecDestroy(hipGraphExec_t graphExec) {
  return api([&]() -> hipError_t {
    if (quirk(Quirk::InstantiateGarbageHandle) && graphExec == garbage()) {
      crash(Quirk::InstantiateGarbageHandle, "the handle that a failed hipGraphInstantiate left was destroyed");
    }
    std::unique_ptr<Exec> ended;  // outlives the lock: user objects call the application when they end
    Lock lock(graph_mutex());
    ended.reset(find_exec(graphExec));
    if (!ended) return hipErrorInvalidValue;
    registry().remove(graphExec);
    if (quirk(Quirk::DestroyImmediate)) ended->series->destroyed.store(true, std::memory_order_release);
    Graph *source = find_graph(ended->source);
    // CLR never resets the flag (hip_graph.cpp:1302).
    if (source && !quirk(Quirk::AllocNodeOnce)) source->instantiated = false;
    return hipSuccess;
  });
}

hipError_t hipGraphExecGetFlags(hipGraphExec_t graphExec, unsigned long long *flags) {
  return api([&]() -> hipError_t {
    Lock lock(graph_mutex());
    const Exec *exec = find_exec(graphExec);
    if (!exec || !flags) return hipErrorInvalidValue;
    *flags = exec->flags;
    return hipSuccess;
  });
}
