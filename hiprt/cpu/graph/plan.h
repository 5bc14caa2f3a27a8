// What a launch of an executable graph executes: steps in any order that the edges allow.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "graph/graph.h"
#include "graph/user_object.h"
#include "runtime/work.h"

namespace cpu {

// The order of steps: fixed once, shared by all launches. A child graph is two empty steps with its nodes between them.
struct Order {
  std::vector<uint32_t> first;       // step i enables successors[first[i]] up to successors[first[i + 1]]
  std::vector<uint32_t> successors;
  std::vector<uint32_t> indegree;
  std::vector<uint32_t> roots;
  std::vector<uint32_t> waits;       // steps that may not be ready when their turn comes
  std::vector<uint32_t> records;     // steps that record events
  std::vector<uint32_t> late_roots;  // of the graph itself, all but the first
};

// The works of the steps. Launches share it until it is changed: then they keep the old one.
struct Plan {
  explicit Plan(size_t steps) : works(steps), disabled(steps) {}
  Plan(const Plan &other) : works(other.works), disabled(other.disabled), users(other.users) {}

  std::vector<std::shared_ptr<Work>> works;  // null: nothing to do (empty or disabled)
  std::vector<bool> disabled;
  UserRefs users;
  std::atomic<int> launches{0};  // queued or running
};

// Number the steps of a graph, nested ones included, and note them in its nodes.
std::shared_ptr<const Order> make_order(Graph &graph);
std::shared_ptr<Plan> make_plan(const Graph &graph, const Order &order);

}  // namespace cpu
