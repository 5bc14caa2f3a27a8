#include "exec.h"

#include <cstdio>

#include "capture.h"
#include "handles.h"
#include "status.h"
#include "stream.h"

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
  exec->order = make_order(*exec->graph);
  exec->plan = make_plan(*exec->graph, *exec->order);
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
  const Exec *exec = find_exec(handle);
  if (!exec) return hipErrorInvalidValue;
  const bool auto_free = exec->flags & hipGraphInstantiateFlagAutoFreeOnLaunch;
  if (const hipError_t error = queue_effects(exec->memory, auto_free)) return error;
  return queue_launch(stream, exec->order, exec->plan, exec->series);
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

Plan &Exec::writable() {
  if (plan->launches.load(std::memory_order_acquire) > 0) plan = std::make_shared<Plan>(*plan);
  return *plan;
}

void Exec::replace(Node *node, Action action) {
  Plan &target = writable();
  node->action = std::move(action);
  if (node->enabled) target.works[node->step] = node->action.work;
}

void Exec::enable(Node *node, bool enabled) {
  writable().works[node->step] = enabled ? node->action.work : nullptr;
  node->enabled = enabled;
}

void Exec::use(const UserRefs &users) { writable().users = users; }

}  // namespace cpu

using namespace cpu;

hipError_t hipGraphInstantiate(hipGraphExec_t *pGraphExec, hipGraph_t graph, hipGraphNode_t *pErrorNode,
                               char *pLogBuffer, size_t bufferSize) {
  return api([&]() -> hipError_t {
    if (!pGraphExec) return hipErrorInvalidValue;
    Outcome outcome;
    const hipError_t error = instantiate(pGraphExec, graph, 0, &outcome);
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
    if (!pGraphExec || (flags & ~kKnown)) return hipErrorInvalidValue;
    Outcome outcome;
    return instantiate(pGraphExec, graph, flags, &outcome);
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
    std::unique_ptr<Exec> ended;  // outlives the lock: user objects call the application when they end
    Lock lock(graph_mutex());
    ended.reset(find_exec(graphExec));
    if (!ended) return hipErrorInvalidValue;
    registry().remove(graphExec);
    if (Graph *source = find_graph(ended->source)) source->instantiated = false;
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
