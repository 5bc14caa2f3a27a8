#include "graph/plan.h"

#include <utility>

#include "quirks/quirks.h"

namespace cpu {
namespace {

using Edge = std::pair<uint32_t, uint32_t>;

// Returns whether such a node may wait for something outside the graph.
bool may_wait(hipGraphNodeType type) {
  return type == hipGraphNodeTypeWaitEvent || type == hipGraphNodeTypeBatchMemOp;
}

struct Numbering {
  uint32_t steps = 0;
  std::vector<Edge> edges;
  Order order;

  uint32_t next() { return steps++; }
  void number(Graph &graph);
  void enter(Node &node);
  // Returns the step at which a node ends: for a child graph the second of its two.
  static uint32_t end_of(const Node &node) { return node.action.child ? node.step + 1 : node.step; }
};

void Numbering::enter(Node &node) {
  node.step = next();
  if (may_wait(node.action.type)) order.waits.push_back(node.step);
  if (node.action.type == hipGraphNodeTypeEventRecord) order.records.push_back(node.step);
  if (!node.action.child) return;
  const uint32_t end = next();
  edges.emplace_back(node.step, end);
  number(*node.action.child);
  for (const auto &inner : node.action.child->nodes) {
    if (inner->dependencies.empty()) edges.emplace_back(node.step, inner->step);
    if (inner->dependents.empty()) edges.emplace_back(end_of(*inner), end);
  }
}

// Returns whether CLR would lose an edge: its four-stream path spreads out-edges over Q streams and throws some waits
// away (rocm-systems#11499).
bool is_dropped(size_t out_edge, const Node &to) {
  if (!quirk(Quirk::FanoutDrop) || to.dependencies.size() > 1) return false;
  return out_edge >= quirk_numbers.queues && out_edge % quirk_numbers.queues != 0;
}

void Numbering::number(Graph &graph) {
  for (const auto &node : graph.nodes) enter(*node);
  for (const auto &node : graph.nodes) {
    // CLR does not wait for a child graph on a stream of its own (rocm-systems#658, #5687).
    const uint32_t from = quirk(Quirk::ChildNoSync) ? node->step : end_of(*node);
    for (size_t i = 0; i < node->dependents.size(); ++i) {
      const Node *to = node->dependents[i];
      if (!is_dropped(i, *to)) edges.emplace_back(from, to->step);
    }
  }
}

std::vector<uint32_t> late_roots(const Graph &graph) {
  std::vector<uint32_t> steps;
  for (const auto &node : graph.nodes) {
    if (node->dependencies.empty()) steps.push_back(node->step);
  }
  if (!steps.empty()) steps.erase(steps.begin());
  return steps;
}

void fill(const Graph &graph, Plan *plan) {
  for (const auto &node : graph.nodes) {
    if (node->enabled) plan->works[node->step] = node->action.work;
    if (node->action.child) fill(*node->action.child, plan);
  }
}

}  // namespace

std::shared_ptr<const Order> make_order(Graph &graph) {
  Numbering numbering;
  numbering.number(graph);
  const uint32_t steps = numbering.steps;
  auto order = std::make_shared<Order>(std::move(numbering.order));
  order->late_roots = late_roots(graph);
  order->first.assign(steps + 1, 0);
  order->indegree.assign(steps, 0);
  for (const auto &[from, to] : numbering.edges) {
    ++order->first[from + 1];
    ++order->indegree[to];
  }
  for (uint32_t i = 0; i < steps; ++i) {
    order->first[i + 1] += order->first[i];
    if (order->indegree[i] == 0) order->roots.push_back(i);
  }
  order->successors.resize(numbering.edges.size());
  std::vector<uint32_t> at = order->first;
  for (const auto &[from, to] : numbering.edges) order->successors[at[from]++] = to;
  return order;
}

std::shared_ptr<Plan> make_plan(const Graph &graph, const Order &order) {
  auto plan = std::make_shared<Plan>(order.indegree.size());
  plan->users = graph.users;
  fill(graph, plan.get());
  return plan;
}

}  // namespace cpu
