#include "graph/exec_update.h"

#include <algorithm>

#include "graph/node.h"
#include "quirks/quirks.h"

namespace cpu {
namespace {

using Result = hipGraphExecUpdateResult;

// Poisons the memory that another work would have written.
struct PoisonWork : Work {
  explicit PoisonWork(std::shared_ptr<Work> v) : Work(v->type), victim(std::move(v)) {}
  hipError_t run() override {
    victim->poison();
    return hipSuccess;
  }
  std::shared_ptr<Work> clone() const override { return std::make_shared<PoisonWork>(victim->clone()); }

  const std::shared_ptr<Work> victim;
};

NodeList exits(const Graph &graph) {
  NodeList list;
  for (const auto &node : graph.nodes) {
    if (node->dependents.empty()) list.push_back(node.get());
  }
  return list;
}

// Pairs the exit nodes in the order of their creation, then dependencies in the order of their edges, as CUDA documents
// it.
class Pairing {
 public:
  Pairing(const Graph &now, const Graph &next) : now_(now), next_(next), partner_(next.nodes.size()) {
    taken_.resize(now.nodes.size());
  }
  Result run(const Node **culprit);
  // The partners, indexed by the position of the newer node.
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

// HIP has no result of its own for attributes that may not change; they count as parameters.
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

using Changes = std::vector<std::pair<Node *, Action>>;

// Returns the changes to make. All copies are made before the first change, so that running out of memory changes
// nothing.
Changes copies(const NodePairs &pairs) {
  Changes changes;
  for (const auto &[now, next] : pairs) {
    if (next->action.work) changes.emplace_back(now, copy_action(next->action));
  }
  return changes;
}

void copy_attributes(const NodePairs &pairs) {
  for (const auto &[now, next] : pairs) now->attributes = next->attributes;
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
    if (!node->action.child || quirk(Quirk::ChildUpdateSelfcopy)) continue;
    if (const Result result = match(*partner->action.child, *node->action.child, flags, pairs, culprit)) return result;
  }
  *culprit = nullptr;
  return hipGraphExecUpdateSuccess;
}

hipError_t apply_updates(Exec &exec, const NodePairs &pairs) {
  for (auto &[node, action] : copies(pairs)) {
    if (const hipError_t error = exec.replace(node, std::move(action))) return error;
  }
  copy_attributes(pairs);
  return hipSuccess;
}

hipError_t update_node(Exec &exec, Node *now, Action action) {
  const bool nested = now->graph->parent != nullptr;
  // From 7.2 to 7.13 ChildGraphNode::SetParams copies the child's parameters onto themselves.
  if (nested && quirk(Quirk::ChildUpdateSelfcopy)) return hipSuccess;
  // CLR casts the node to the class of its partner (hip_graph.cpp:2484-2490).
  const bool miscast = action.type == hipGraphNodeTypeMemcpy && action.flavour != now->action.flavour;
  if (miscast && quirk(Quirk::MemcpyFlavourUb)) action.work = std::make_shared<PoisonWork>(std::move(action.work));
  // CLR builds packets again only for the nodes of the graph itself (hip_graph.cpp:2519-2524).
  return exec.replace(now, std::move(action), !(nested && quirk(Quirk::ChildUpdateStalePackets)));
}

hipError_t update_by_structure(Exec &exec, const Graph &graph, const Node **culprit, Result *result) {
  NodePairs pairs;
  *result = match(*exec.graph, graph, exec.flags, &pairs, culprit);
  const bool matches = *result == hipGraphExecUpdateSuccess;
  // CLR updates while it compares, and does not undo it (hip_graph.cpp:2451-2534).
  if (!matches && !quirk(Quirk::UpdatePartial)) return hipErrorGraphExecUpdateFailure;
  for (auto &[now, action] : copies(pairs)) {
    if (update_node(exec, now, std::move(action)) == hipSuccess) continue;
    *result = hipGraphExecUpdateErrorNotSupported;
    return hipErrorGraphExecUpdateFailure;
  }
  copy_attributes(pairs);
  if (matches) exec.use(graph.users);
  return matches ? hipSuccess : hipErrorGraphExecUpdateFailure;
}

}  // namespace cpu
