// hipGraphExecUpdate: pair the nodes of two graphs by structure, check all pairs, then change all of them or none.
#include <algorithm>

#include "exec.h"
#include "node.h"
#include "status.h"

namespace cpu {
namespace {

using Result = hipGraphExecUpdateResult;

NodeList exits(const Graph &graph) {
  NodeList list;
  for (const auto &node : graph.nodes) {
    if (node->dependents.empty()) list.push_back(node.get());
  }
  return list;
}

// Pairs exit nodes in the order of creation, then dependencies in the order of their edges, as CUDA documents it.
class Pairing {
 public:
  Pairing(const Graph &now, const Graph &next) : now_(now), next_(next), partner_(next.nodes.size()) {
    taken_.resize(now.nodes.size());
  }
  Result run(const Node **culprit);
  // By the position of the newer node.
  const NodeList &partners() const { return partner_; }

 private:
  bool pair(Node *now, Node *next);
  bool pair_dependencies(const Node *now, const Node *next);

  const Graph &now_;
  const Graph &next_;
  NodeList partner_;
  std::vector<bool> taken_;
  NodeList open_;  // newer nodes whose dependencies are still to be paired
};

Result Pairing::run(const Node **culprit) {
  if (now_.nodes.size() != next_.nodes.size()) return hipGraphExecUpdateErrorTopologyChanged;
  const NodeList now_exits = exits(now_);
  const NodeList next_exits = exits(next_);
  if (next_exits.size() > now_exits.size()) {
    *culprit = next_exits[now_exits.size()];
    return hipGraphExecUpdateErrorTopologyChanged;
  }
  for (size_t i = 0; i < next_exits.size(); ++i) pair(now_exits[i], next_exits[i]);
  while (!open_.empty()) {
    const Node *next = open_.back();
    open_.pop_back();
    if (pair_dependencies(partner_[next->index], next)) continue;
    *culprit = next;
    return hipGraphExecUpdateErrorTopologyChanged;
  }
  return hipGraphExecUpdateSuccess;
}

bool Pairing::pair(Node *now, Node *next) {
  if (partner_[next->index]) return partner_[next->index] == now;
  if (taken_[now->index]) return false;
  partner_[next->index] = now;
  taken_[now->index] = true;
  open_.push_back(next);
  return true;
}

bool Pairing::pair_dependencies(const Node *now, const Node *next) {
  if (now->dependencies.size() != next->dependencies.size()) return false;
  for (size_t i = 0; i < next->dependencies.size(); ++i) {
    if (!pair(now->dependencies[i], next->dependencies[i])) return false;
  }
  return true;
}

int attribute(const Node &node, hipLaunchAttributeID id) {
  const auto it = node.attributes.find(id);
  if (it == node.attributes.end()) return 0;
  return id == hipLaunchAttributePriority ? it->second.priority : it->second.cooperative;
}

// HIP has no result for attributes that may not change; they are parameters then.
Result compare_attributes(const Node &now, const Node &next, unsigned long long flags) {
  const auto differs = [&](hipLaunchAttributeID id) { return attribute(now, id) != attribute(next, id); };
  const bool priority = flags & hipGraphInstantiateFlagUseNodePriority;
  if (differs(hipLaunchAttributeCooperative)) return hipGraphExecUpdateErrorParametersChanged;
  if (priority && differs(hipLaunchAttributePriority)) return hipGraphExecUpdateErrorParametersChanged;
  return hipGraphExecUpdateSuccess;
}

Result compare_nodes(const Node &now, const Node &next, unsigned long long flags) {
  const Result result = compare_actions(now.action, next.action);
  return result ? result : compare_attributes(now, next, flags);
}

hipError_t update(Exec &exec, const Graph &graph, const Node **culprit, Result *result) {
  NodePairs pairs;
  *result = match(*exec.graph, graph, exec.flags, &pairs, culprit);
  if (*result != hipGraphExecUpdateSuccess) return hipErrorGraphExecUpdateFailure;
  apply_updates(exec, pairs);
  exec.use(graph.users);
  return hipSuccess;
}

}  // namespace

Result match(const Graph &now, const Graph &next, unsigned long long flags, NodePairs *pairs, const Node **culprit) {
  Pairing pairing(now, next);
  if (const Result result = pairing.run(culprit)) return result;
  for (const auto &node : next.nodes) {
    Node *partner = pairing.partners()[node->index];
    *culprit = node.get();
    if (const Result result = compare_nodes(*partner, *node, flags)) return result;
    pairs->emplace_back(partner, node.get());
    if (!node->action.child) continue;
    if (const Result result = match(*partner->action.child, *node->action.child, flags, pairs, culprit)) return result;
  }
  *culprit = nullptr;
  return hipGraphExecUpdateSuccess;
}

void apply_updates(Exec &exec, const NodePairs &pairs) {
  std::vector<std::pair<Node *, Action>> changes;
  for (const auto &[now, next] : pairs) {
    if (next->action.work) changes.emplace_back(now, copy_action(next->action));
  }
  for (auto &[node, action] : changes) exec.replace(node, std::move(action));
  for (const auto &[now, next] : pairs) now->attributes = next->attributes;
}

}  // namespace cpu

using namespace cpu;

hipError_t hipGraphExecUpdate(hipGraphExec_t hGraphExec, hipGraph_t hGraph, hipGraphNode_t *hErrorNode_out,
                              hipGraphExecUpdateResult *updateResult_out) {
  return api([&]() -> hipError_t {
    if (!hErrorNode_out || !updateResult_out) return hipErrorInvalidValue;
    *hErrorNode_out = nullptr;
    *updateResult_out = hipGraphExecUpdateError;
    std::lock_guard<std::mutex> lock(graph_mutex());
    Exec *exec = find_exec(hGraphExec);
    const Graph *graph = find_graph(hGraph);
    if (!exec || !graph) return hipErrorInvalidValue;
    const Node *culprit = nullptr;
    const hipError_t error = update(*exec, *graph, &culprit, updateResult_out);
    if (culprit) *hErrorNode_out = culprit->handle;
    return error;
  });
}
