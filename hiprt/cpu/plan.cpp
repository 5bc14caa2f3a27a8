#include "plan.h"

#include <utility>

#include "stream.h"

namespace cpu {
namespace {

using Edge = std::pair<uint32_t, uint32_t>;

// Works that wait for something outside the graph.
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
  // Where a node ends: for a child graph the step after its entry one.
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

void Numbering::number(Graph &graph) {
  for (const auto &node : graph.nodes) enter(*node);
  for (const auto &node : graph.nodes) {
    for (const Node *to : node->dependents) edges.emplace_back(end_of(*node), to->step);
  }
}

void fill(const Graph &graph, Plan *plan) {
  for (const auto &node : graph.nodes) {
    if (node->enabled) plan->works[node->step] = node->action.work;
    if (node->action.child) fill(*node->action.child, plan);
  }
}

// One launch. A graph that waits for events is queued as several works in a row, the rest after the first: each goes on
// as far as it can, and as every wait is passed before the next one stops, waits + 1 of them are enough.
class GraphWork : public Work {
 public:
  GraphWork(std::shared_ptr<const Order> order, std::shared_ptr<Plan> plan, std::shared_ptr<Series> series)
      : Work(hipGraphNodeTypeGraph), order_(std::move(order)), plan_(std::move(plan)), series_(std::move(series)),
        turn_(series_->queued) {
    plan_->launches.fetch_add(1, std::memory_order_relaxed);
  }
  ~GraphWork() override { plan_->launches.fetch_sub(1, std::memory_order_release); }

  // Waits come first: they mean what was recorded before this launch, not what the launch itself records.
  void queued() override {
    for (const auto *steps : {&order_->waits, &order_->records}) {
      for (const uint32_t step : *steps) plan_->works[step]->queued();
    }
  }
  bool ready() const override { return series_->finished.load(std::memory_order_acquire) >= turn_; }
  bool can_go_on() const;
  hipError_t run() override;
  hipError_t go_on();
  void drop() override;
  std::shared_ptr<Work> clone() const override { return nullptr; }  // a launch is never a node

 private:
  hipError_t run_ready();
  void complete(uint32_t step);
  void abandon();
  // Launches finish in order, except those of a lost device.
  void finish() { series_->finished.fetch_add(1, std::memory_order_release); }

  const std::shared_ptr<const Order> order_;
  const std::shared_ptr<Plan> plan_;
  const std::shared_ptr<Series> series_;
  const uint64_t turn_;
  size_t left_ = 0;  // steps that have not run
  bool over_ = false;
  // The wait that was found to be over: it is not asked again, as what it waits for in memory may change back.
  mutable uint32_t passed_ = UINT32_MAX;
};

struct GraphRestWork : Work {
  explicit GraphRestWork(std::shared_ptr<GraphWork> w) : Work(hipGraphNodeTypeGraph), launch(std::move(w)) {}
  bool ready() const override { return launch->can_go_on(); }
  hipError_t run() override { return launch->go_on(); }
  void drop() override { launch->drop(); }
  std::shared_ptr<Work> clone() const override { return nullptr; }

  const std::shared_ptr<GraphWork> launch;
};

hipError_t GraphWork::run() {
  series_->missing = order_->indegree;
  series_->ready = order_->roots;
  series_->blocked.clear();
  left_ = plan_->works.size();
  return run_ready();
}

bool GraphWork::can_go_on() const {
  if (over_) return true;
  for (const uint32_t step : series_->blocked) {
    if (!plan_->works[step]->ready()) continue;
    passed_ = step;
    return true;
  }
  return false;
}

hipError_t GraphWork::go_on() {
  if (over_) return hipSuccess;
  std::swap(series_->ready, series_->blocked);
  return run_ready();
}

hipError_t GraphWork::run_ready() {
  auto &ready = series_->ready;
  while (!ready.empty()) {
    const auto count = static_cast<uint32_t>(ready.size());
    std::swap(ready[count == 1 ? 0 : shuffle_next(count)], ready.back());
    const uint32_t step = ready.back();
    ready.pop_back();
    Work *work = plan_->works[step].get();
    if (work && step != passed_ && !work->ready()) {
      series_->blocked.push_back(step);
      continue;
    }
    const hipError_t error = work ? work->run() : hipSuccess;
    complete(step);
    if (error) {
      abandon();
      return error;
    }
  }
  if (left_ == 0) {
    over_ = true;
    finish();
  }
  return hipSuccess;
}

void GraphWork::complete(uint32_t step) {
  series_->missing[step] = UINT32_MAX;
  --left_;
  for (uint32_t i = order_->first[step]; i < order_->first[step + 1]; ++i) {
    const uint32_t next = order_->successors[i];
    if (--series_->missing[next] == 0) series_->ready.push_back(next);
  }
}

// A node failed: what has not run is dropped.
void GraphWork::abandon() {
  for (size_t step = 0; step < plan_->works.size(); ++step) {
    if (series_->missing[step] != UINT32_MAX && plan_->works[step]) plan_->works[step]->drop();
  }
  over_ = true;
  finish();
}

void GraphWork::drop() {
  if (over_) return;
  if (left_ == 0) series_->missing = order_->indegree;  // not begun
  abandon();
}

}  // namespace

std::shared_ptr<const Order> make_order(Graph &graph) {
  Numbering numbering;
  numbering.number(graph);
  const uint32_t steps = numbering.steps;
  auto order = std::make_shared<Order>(std::move(numbering.order));
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

hipError_t queue_launch(hipStream_t stream, const std::shared_ptr<const Order> &order,
                        const std::shared_ptr<Plan> &plan, const std::shared_ptr<Series> &series) {
  auto launch = std::make_shared<GraphWork>(order, plan, series);
  if (const hipError_t error = enqueue(stream, launch)) return error;
  ++series->queued;
  for (size_t i = 0; i < order->waits.size(); ++i) {
    if (const hipError_t error = enqueue(stream, std::make_shared<GraphRestWork>(launch))) return error;
  }
  return hipSuccess;
}

}  // namespace cpu
