#include "graph/exec.h"

#include <algorithm>

#include "handles.h"
#include "quirks/quirks.h"

namespace cpu {
namespace {

Handles<hipGraphExec_t, Exec> &registry() {
  static auto *instance = new Handles<hipGraphExec_t, Exec>;
  return *instance;
}

// Returns whether a quirk needs plans to be kept beside those of launches in flight.
bool are_plans_kept() {
  return quirk(Quirk::UpdateInflightVisible) || quirk(Quirk::HostParamsLive) || quirk(Quirk::DisabledListStale);
}

void index_nodes(const Graph &graph, Exec *exec) {
  for (const auto &node : graph.nodes) {
    exec->nodes.emplace(node->origin, node.get());
    if (node->action.child) index_nodes(*node->action.child, exec);
  }
}

hipError_t take_kernargs(const Graph &graph, Kernargs *kernargs) {
  for (const auto &node : graph.nodes) {
    const Graph *child = node->action.child.get();
    const hipError_t error = child ? take_kernargs(*child, kernargs) : kernargs->take(node->action, false);
    if (error) return error;
  }
  return hipSuccess;
}

}  // namespace

Exec *find_exec(hipGraphExec_t handle) { return registry().find(handle); }

hipError_t Exec::create(Graph &graph, unsigned long long flags, std::unique_ptr<Exec> *out) {
  auto exec = std::make_unique<Exec>();
  exec->flags = flags;
  exec->source = graph.handle;
  exec->graph = copy_graph(graph);
  index_nodes(*exec->graph, exec.get());
  if (const hipError_t error = take_kernargs(*exec->graph, &exec->kernargs)) return error;
  exec->order = make_order(*exec->graph);
  exec->plan = make_plan(*exec->graph, *exec->order);
  if (are_plans_kept()) exec->series->publish(exec->plan);
  exec->memory = memory_effects(*exec->graph);
  *out = std::move(exec);
  return hipSuccess;
}

void publish(Exec &exec) { exec.handle = registry().add(&exec); }

void retract(Exec &exec) { registry().remove(exec.handle); }

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
    // CLR drops the status of UpdateAQLPacket (rocm-systems#10714).
    if (error && !quirk(Quirk::UpdateSwallowError)) return error;
    refresh = error == hipSuccess;
  }
  const bool is_stale = !refresh && is_packet(action);
  node->action = std::move(action);
  if (is_stale || !node->enabled) return hipSuccess;
  change_plan([&](Plan &target) {
    std::shared_ptr<Work> &work = target.works[node->step];
    // CLR flushes its writes to arguments in device memory only when it instantiates.
    if (quirk(Quirk::UpdateNoFlush) && is_packet(node->action)) unflushed_.emplace_back(node->step, work);
    work = node->action.work;
  });
  return hipSuccess;
}

void Exec::enable(Node *node, bool enabled) {
  change_plan([&](Plan &target) {
    target.works[node->step] = enabled ? node->action.work : nullptr;
    target.disabled[node->step] = !enabled;
    const hipGraphNodeType type = node->action.type;
    target.orderless[node->step] = !enabled && (type == hipGraphNodeTypeKernel || type == hipGraphNodeTypeMemcpy);
  });
  node->enabled = enabled;
}

void Exec::use(const UserRefs &users) {
  change_plan([&](Plan &target) { target.users = users; });
}

std::shared_ptr<Plan> Exec::launch_plan() {
  std::shared_ptr<Plan> now = plan;
  if (quirk(Quirk::DisabledListStale)) {
    // CLR caches packet lists without the disabled nodes by their size alone.
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
