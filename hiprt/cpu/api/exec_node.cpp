// HIP's functions that change single nodes of an executable graph, which the nodes it was made from name.
#include "enumerator.h"
#include "graph/exec.h"
#include "graph/exec_update.h"
#include "graph/node.h"
#include "quirks/quirks.h"
#include "runtime/status.h"

namespace cpu {
namespace {

using Lock = std::lock_guard<std::mutex>;

// The kinds of setters. CLR does not build the packets of the generic ones again (hip_graph.cpp:3187-3323).
enum class Setter { Typed, Generic };

bool refreshes(Setter setter) {
  // With batch_stale the packet is built again, but not the batch of packets that is launched (rocm-systems#1099,
  // #1262).
  return !quirk(setter == Setter::Typed ? Quirk::BatchStale : Quirk::GenericSetparamsStale);
}

// Changes one node; make(now, &action) gives the action that it has from now on.
template <class Make>
hipError_t set_exec_node(hipGraphExec_t handle, hipGraphNode_t source, int type, Make make,
                         Setter setter = Setter::Typed) {
  return api([&]() -> hipError_t {
    Lock lock(graph_mutex());
    Exec *exec = find_exec(handle);
    Node *node = exec ? exec->find(source) : nullptr;
    if (!node || node->action.type != type) return hipErrorInvalidValue;
    Action action;
    if (const hipError_t error = make(node->action, &action)) return error;
    stay_cooperative(node->action, &action);
    if (compare_actions(node->action, action) != hipGraphExecUpdateSuccess) return hipErrorInvalidValue;
    return exec->replace(node, std::move(action), refreshes(setter));
  });
}

bool can_disable(hipGraphNodeType type) {
  return type == hipGraphNodeTypeKernel || type == hipGraphNodeTypeMemcpy || type == hipGraphNodeTypeMemset;
}

// A graph that is not of the node's form, or that has the node itself, is refused by the status of CLR (hip_graph.cpp:
// 1760-1786 of ROCm/clr @f9f995c6d).
hipError_t set_child(hipGraphExec_t handle, hipGraphNode_t source, hipGraph_t child) {
  Lock lock(graph_mutex());
  Exec *exec = find_exec(handle);
  const Node *node = exec ? exec->find(source) : nullptr;
  const Graph *next = find_graph(child);
  if (!node || node->action.type != hipGraphNodeTypeGraph || !next) return hipErrorInvalidValue;
  const Node *original = find_node(source);
  if (original && original->graph == next) return hipErrorUnknown;
  NodePairs pairs;
  const Node *culprit = nullptr;
  const auto result = match(*node->action.child, *next, exec->flags, &pairs, &culprit);
  if (result == hipGraphExecUpdateErrorTopologyChanged || result == hipGraphExecUpdateErrorNodeTypeChanged) {
    return hipErrorUnknown;
  }
  if (result != hipGraphExecUpdateSuccess) return hipErrorInvalidValue;
  return apply_updates(*exec, pairs);
}

}  // namespace
}  // namespace cpu

using namespace cpu;

hipError_t hipGraphExecNodeSetParams(hipGraphExec_t graphExec, hipGraphNode_t node, hipGraphNodeParams *nodeParams) {
  if (!nodeParams) return done(hipErrorInvalidValue);
  const int type = number_of(nodeParams->type);
  switch (type) {
    case hipGraphNodeTypeGraph: return hipGraphExecChildGraphNodeSetParams(graphExec, node, nodeParams->graph.graph);
    case hipGraphNodeTypeMemAlloc:
    case hipGraphNodeTypeMemFree: return done(hipErrorNotSupported);
    default:
      return set_exec_node(
          graphExec, node, type, [&](const Action &, Action *action) { return make_action(nodeParams, action); },
          Setter::Generic);
  }
}

hipError_t hipGraphExecKernelNodeSetParams(hipGraphExec_t hGraphExec, hipGraphNode_t node,
                                           const hipKernelNodeParams *pNodeParams) {
  return set_exec_node(hGraphExec, node, hipGraphNodeTypeKernel,
                       [&](const Action &now, Action *action) { return make_action(pNodeParams, action, &now); });
}

hipError_t hipGraphExecMemcpyNodeSetParams(hipGraphExec_t hGraphExec, hipGraphNode_t node,
                                           hipMemcpy3DParms *pNodeParams) {
  return set_exec_node(hGraphExec, node, hipGraphNodeTypeMemcpy,
                       [&](const Action &now, Action *action) {
                         const bool changed = pNodeParams && pNodeParams->kind != now.copy.kind;
                         return changed ? hipErrorInvalidValue : make_action(pNodeParams, action);
                       });
}

hipError_t hipGraphExecMemcpyNodeSetParams1D(hipGraphExec_t hGraphExec, hipGraphNode_t node, void *dst,
                                             const void *src, size_t count, hipMemcpyKind kind) {
  return set_exec_node(hGraphExec, node, hipGraphNodeTypeMemcpy,
                       [&](const Action &now, Action *action) {
                         const bool refused = dst == src || kind != now.copy.kind;
                         return refused ? hipErrorInvalidValue : make_copy_action(dst, src, count, kind, action);
                       });
}

hipError_t hipDrvGraphExecMemcpyNodeSetParams(hipGraphExec_t hGraphExec, hipGraphNode_t hNode,
                                              const HIP_MEMCPY3D *copyParams, hipCtx_t) {
  return set_exec_node(
      hGraphExec, hNode, hipGraphNodeTypeMemcpy,
      [&](const Action &, Action *action) { return make_action(copyParams, action); }, Setter::Generic);
}

hipError_t hipGraphExecMemsetNodeSetParams(hipGraphExec_t hGraphExec, hipGraphNode_t node,
                                           const hipMemsetParams *pNodeParams) {
  return set_exec_node(hGraphExec, node, hipGraphNodeTypeMemset,
                       [&](const Action &, Action *action) { return make_action(pNodeParams, action); });
}

hipError_t hipDrvGraphExecMemsetNodeSetParams(hipGraphExec_t hGraphExec, hipGraphNode_t hNode,
                                              const hipMemsetParams *memsetParams, hipCtx_t) {
  return set_exec_node(
      hGraphExec, hNode, hipGraphNodeTypeMemset,
      [&](const Action &, Action *action) { return make_action(memsetParams, action); }, Setter::Generic);
}

hipError_t hipGraphExecHostNodeSetParams(hipGraphExec_t hGraphExec, hipGraphNode_t node,
                                         const hipHostNodeParams *pNodeParams) {
  return set_exec_node(hGraphExec, node, hipGraphNodeTypeHost,
                       [&](const Action &, Action *action) { return make_action(pNodeParams, action); });
}

hipError_t hipGraphExecChildGraphNodeSetParams(hipGraphExec_t hGraphExec, hipGraphNode_t node, hipGraph_t childGraph) {
  return api([&] { return set_child(hGraphExec, node, childGraph); });
}

hipError_t hipGraphExecEventRecordNodeSetEvent(hipGraphExec_t hGraphExec, hipGraphNode_t hNode, hipEvent_t event) {
  return set_exec_node(hGraphExec, hNode, hipGraphNodeTypeEventRecord, [&](const Action &, Action *action) {
    return make_event_action(hipGraphNodeTypeEventRecord, event, action);
  });
}

hipError_t hipGraphExecEventWaitNodeSetEvent(hipGraphExec_t hGraphExec, hipGraphNode_t hNode, hipEvent_t event) {
  return set_exec_node(hGraphExec, hNode, hipGraphNodeTypeWaitEvent, [&](const Action &, Action *action) {
    return make_event_action(hipGraphNodeTypeWaitEvent, event, action);
  });
}

hipError_t hipGraphNodeSetEnabled(hipGraphExec_t hGraphExec, hipGraphNode_t hNode, unsigned int isEnabled) {
  return api([&]() -> hipError_t {
    Lock lock(graph_mutex());
    Exec *exec = find_exec(hGraphExec);
    Node *node = exec ? exec->find(hNode) : nullptr;
    if (!node || !can_disable(node->action.type)) return hipErrorInvalidValue;
    exec->enable(node, isEnabled != 0);
    return hipSuccess;
  });
}

hipError_t hipGraphNodeGetEnabled(hipGraphExec_t hGraphExec, hipGraphNode_t hNode, unsigned int *isEnabled) {
  return api([&]() -> hipError_t {
    Lock lock(graph_mutex());
    const Exec *exec = find_exec(hGraphExec);
    const Node *node = exec ? exec->find(hNode) : nullptr;
    if (!node || !isEnabled || !can_disable(node->action.type)) return hipErrorInvalidValue;
    *isEnabled = node->enabled ? 1 : 0;
    return hipSuccess;
  });
}
