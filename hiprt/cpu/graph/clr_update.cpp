#include "graph/clr_update.h"

#include <algorithm>

#include "graph/exec_update.h"
#include "graph/node.h"
#include "quirks/quirks.h"

namespace cpu {
namespace {

using Result = hipGraphExecUpdateResult;

bool has_device(hipGraphNodeType type) { return type != hipGraphNodeTypeHost && type != hipGraphNodeTypeEmpty; }

// Makes the checks of hip_graph.cpp:2451-2534 in their order. Edges are not among them.
Result compare(const Node &now, const Node &next) {
  if (now.action.type != next.action.type) return hipGraphExecUpdateErrorNodeTypeChanged;
  if (has_device(next.action.type) && now.graph->device != next.graph->device) {
    return hipGraphExecUpdateErrorUnsupportedFunctionChange;
  }
  if (now.action.type == hipGraphNodeTypeMemcpy && now.action.copy.kind != next.action.copy.kind) {
    return hipGraphExecUpdateErrorParametersChanged;
  }
  // 5.6 and 5.7 do not even compare the number of dependencies.
  if (!quirk(Quirk::UpdateNoDepCheck) && now.dependencies.size() != next.dependencies.size()) {
    return hipGraphExecUpdateErrorTopologyChanged;
  }
  if (refuses_rows(next.action)) return hipGraphExecUpdateErrorParametersChanged;
  return now.action.type == hipGraphNodeTypeMemset ? compare_actions(now.action, next.action)
                                                   : hipGraphExecUpdateSuccess;
}

hipError_t update_child(Exec &exec, const Graph &now, const Graph &next);

hipError_t change(Exec &exec, Node *now, const Node &next) {
  if (now->action.child) return update_child(exec, *now->action.child, *next.action.child);
  // Allocations and frees have no SetParams of their own, so that nothing happens.
  if (!next.action.work || is_memory(next.action.type)) return hipSuccess;
  return update_node(exec, now, copy_action(next.action));
}

// Pairs the nodes of child graphs in the order of their insertion, unchecked. Nodes that CLR would read past the end or
// as a wrong type are left alone.
hipError_t update_child(Exec &exec, const Graph &now, const Graph &next) {
  const size_t common = std::min(now.nodes.size(), next.nodes.size());
  for (size_t i = 0; i < common; ++i) {
    if (now.nodes[i]->action.type != next.nodes[i]->action.type) continue;
    if (const hipError_t error = change(exec, now.nodes[i].get(), *next.nodes[i])) return error;
  }
  return hipSuccess;
}

}  // namespace

hipError_t update_by_position(Exec &exec, const Graph &graph, const Node **culprit, Result *result) {
  const NodeList now = topological_order(*exec.graph);
  const NodeList next = topological_order(graph);
  *result = hipGraphExecUpdateErrorTopologyChanged;
  if (now.size() != next.size()) return hipErrorGraphExecUpdateFailure;
  for (size_t i = 0; i < now.size(); ++i) {
    *culprit = next[i];
    *result = compare(*now[i], *next[i]);
    if (*result != hipGraphExecUpdateSuccess) return hipErrorGraphExecUpdateFailure;
    *result = hipGraphExecUpdateErrorNotSupported;
    if (change(exec, now[i], *next[i])) return hipErrorGraphExecUpdateFailure;
  }
  *culprit = nullptr;
  *result = hipGraphExecUpdateSuccess;
  return hipSuccess;
}

}  // namespace cpu
