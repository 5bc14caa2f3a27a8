// What a launch of an executable graph executes: steps in any order that the edges allow.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
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

// What a running launch knows of its steps.
struct Progress {
  std::vector<uint32_t> missing;  // by step: predecessors that have not run
  std::vector<uint32_t> ready;
  std::vector<uint32_t> blocked;  // ready, but waiting for an event
};

struct Stream;

// What the launches of one executable graph have in common; they run one after the other.
struct Series {
  uint64_t queued = 0;  // guarded by graph_mutex()
  std::atomic<uint64_t> finished{0};
  Progress progress;  // of the running launch: its memory is used again

  // For defects of CLR by which a launch does not keep to what it was queued with.
  void publish(const std::shared_ptr<const Plan> &plan);
  std::shared_ptr<const Plan> latest() const;
  std::atomic<bool> destroyed{false};
  uint64_t newest = 0;  // turn of the launch that began last; of the device thread
  std::shared_ptr<Stream> side;  // guarded by graph_mutex()

 private:
  mutable std::mutex lock_;
  std::shared_ptr<const Plan> latest_;
};

// Number the steps of a graph, nested ones included, and note them in its nodes.
std::shared_ptr<const Order> make_order(Graph &graph);
std::shared_ptr<Plan> make_plan(const Graph &graph, const Order &order);

// Queue one launch. Later changes of the plan must be made on a copy while plan->launches is not 0.
hipError_t queue_launch(hipStream_t stream, const std::shared_ptr<const Order> &order,
                        const std::shared_ptr<Plan> &plan, const std::shared_ptr<Series> &series);

}  // namespace cpu
