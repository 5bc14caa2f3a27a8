#include "graph/plan.h"

#include <utility>

#include "check/checks.h"
#include "quirks/quirks.h"

namespace cpu {
namespace {

struct Edge {
  uint32_t from, to;
  bool crosses;  // in CLR its ends are on different streams
};

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
  edges.push_back({node.step, end, false});
  number(*node.action.child);
  for (const auto &inner : node.action.child->nodes) {
    if (inner->dependencies.empty()) edges.push_back({node.step, inner->step, false});
    if (inner->dependents.empty()) edges.push_back({end_of(*inner), end, false});
  }
}

// Returns whether CLR would lose an edge: its four-stream path spreads out-edges over Q streams and throws some waits
// away (rocm-systems#11499).
bool is_dropped(size_t out_edge, const Node &to) {
  if (!quirk(Quirk::FanoutDrop) || to.dependencies.size() > 1) return false;
  return out_edge >= quirk_numbers.queues && out_edge % quirk_numbers.queues != 0;
}

// Returns on which of Q streams CLR runs each node: depth first, each further edge and each further root on the next
// stream (Graph::ScheduleNodes, hip_graph_internal.cpp:246 of ROCm/clr @f9f995c6d).
std::vector<uint32_t> clr_streams(const Graph &graph) {
  constexpr uint32_t kNone = UINT32_MAX;
  std::vector<uint32_t> streams(graph.nodes.size(), kNone);
  std::vector<std::pair<const Node *, uint32_t>> open;
  uint32_t root_stream = 0;
  for (const auto &node : graph.nodes) {
    if (streams[node->index] != kNone) continue;
    open.emplace_back(node.get(), root_stream);
    root_stream = (root_stream + 1) % quirk_numbers.queues;
    while (!open.empty()) {
      const auto [next, stream] = open.back();
      open.pop_back();
      if (streams[next->index] != kNone) continue;
      streams[next->index] = stream;
      for (size_t i = next->dependents.size(); i-- > 0;) {
        open.emplace_back(next->dependents[i], (stream + i) % quirk_numbers.queues);
      }
    }
  }
  return streams;
}

void Numbering::number(Graph &graph) {
  for (const auto &node : graph.nodes) enter(*node);
  const std::vector<uint32_t> streams = clr_streams(graph);
  for (const auto &node : graph.nodes) {
    for (size_t i = 0; i < node->dependents.size(); ++i) {
      const Node *to = node->dependents[i];
      const bool crosses = streams[node->index] != streams[to->index];
      // A child graph is left out of the list of what a node on another stream waits for, and so is what the child waits
      // for (Graph::RunOneNode, hip_graph_internal.cpp:702 of ROCm/clr @f9f995c6d; rocm-systems#658, #5687).
      const bool is_unknown = quirk(Quirk::ChildNoSync) && crosses && node->action.child;
      if (!is_unknown && !is_dropped(i, *to)) edges.push_back({end_of(*node), to->step, crosses});
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
  for (const Edge &edge : numbering.edges) {
    ++order->first[edge.from + 1];
    ++order->indegree[edge.to];
  }
  for (uint32_t i = 0; i < steps; ++i) {
    order->first[i + 1] += order->first[i];
    if (order->indegree[i] == 0) order->roots.push_back(i);
  }
  order->successors.resize(numbering.edges.size());
  order->crosses.resize(numbering.edges.size());
  std::vector<uint32_t> at = order->first;
  for (const Edge &edge : numbering.edges) {
    const uint32_t place = at[edge.from]++;
    order->successors[place] = edge.to;
    order->crosses[place] = edge.crosses;
  }
  if (is_checking()) order->before = order_steps(order->first, order->successors);
  return order;
}

std::shared_ptr<Plan> make_plan(const Graph &graph, const Order &order) {
  auto plan = std::make_shared<Plan>(order.indegree.size());
  plan->users = graph.users;
  fill(graph, plan.get());
  return plan;
}

}  // namespace cpu
