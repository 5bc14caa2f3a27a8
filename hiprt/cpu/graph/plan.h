// The plan of an executable graph: the steps that a launch executes, in any order that the edges allow.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "check/task_order.h"
#include "graph/graph.h"
#include "graph/user_object.h"
#include "runtime/work.h"

namespace cpu {

// The order of the steps, which is fixed once and shared by all launches. A child graph is two empty steps with its
// nodes between them.
struct Order {
  std::vector<uint32_t> first;       // step i enables successors[first[i]] up to successors[first[i + 1]]
  std::vector<uint32_t> successors;
  std::vector<bool> crosses;         // for each successor: in CLR it is on another stream
  std::vector<uint32_t> indegree;
  std::vector<uint32_t> roots;
  std::vector<uint32_t> waits;       // steps that may have to wait when their turn comes
  std::vector<uint32_t> records;     // steps that record events
  std::shared_ptr<const StepOrder> before;  // while kernels are checked: which steps come before which
  std::vector<uint32_t> late_roots;  // all roots of the graph itself but the first
};

// The works of the steps. Launches share a plan; one that is queued keeps its plan when the graph is changed.
struct Plan {
  explicit Plan(size_t steps) : works(steps), disabled(steps), orderless(steps) {}
  Plan(const Plan &other)
      : works(other.works), disabled(other.disabled), orderless(other.orderless), users(other.users) {}

  std::vector<std::shared_ptr<Work>> works;  // null for steps that do nothing: empty or disabled nodes
  std::vector<bool> disabled;
  std::vector<bool> orderless;  // disabled nodes that have no command in CLR 7
  UserRefs users;
  std::atomic<int> launches{0};  // launches of this plan that are queued or running
};

// Numbers the steps of a graph, nested ones included, and notes them in its nodes.
std::shared_ptr<const Order> make_order(Graph &graph);
std::shared_ptr<Plan> make_plan(const Graph &graph, const Order &order);

}  // namespace cpu
