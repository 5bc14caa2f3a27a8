// Executable graphs: each is a private copy of a graph definition and the plan that its launches execute.
#pragma once

#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/graph_launch.h"
#include "graph/graph_memory.h"
#include "graph/kernel_arguments.h"
#include "graph/plan.h"
#include "hip/hip_runtime_api.h"

namespace cpu {

// An executable graph. graph_mutex() guards it.
struct Exec {
  hipGraphExec_t handle = nullptr;
  unsigned long long flags = 0;
  hipGraph_t source = nullptr;   // the graph that it was made from
  std::unique_ptr<Graph> graph;  // the private copy
  std::unordered_map<hipGraphNode_t, Node *> nodes;  // from the source graph's node, nested ones included
  std::shared_ptr<const Order> order;
  std::shared_ptr<Plan> plan;
  std::shared_ptr<Series> series = std::make_shared<Series>();
  MemoryEffects memory;
  Kernargs kernargs;

  // Makes the executable form of a graph. It has no handle yet.
  static hipError_t create(Graph &graph, unsigned long long flags, std::unique_ptr<Exec> *out);
  // Returns the node that was made from a node of the source graph; null if that node is gone or foreign.
  Node *find(hipGraphNode_t source_node) const;
  // These make changes that later launches see; queued ones keep what they were queued with. `refresh` says whether the
  // packet is built again, which CLR forgets here and there: then the node is changed, but not what it does.
  hipError_t replace(Node *node, Action action, bool refresh = true);
  void enable(Node *node, bool enabled);
  void use(const UserRefs &users);
  // Returns what a launch that is queued now executes.
  std::shared_ptr<Plan> launch_plan();

 private:
  template <class Change>
  void change_plan(Change change);

  // Kept for quirks: works of changed steps that the next launch may still see, and packet lists by the number of
  // disabled nodes.
  std::vector<std::pair<uint32_t, std::shared_ptr<Work>>> unflushed_;
  std::map<size_t, std::shared_ptr<Plan>> filtered_;
};

// Gives an executable graph its handle, or takes it away.
void publish(Exec &exec);
void retract(Exec &exec);
// Returns the live object, or null. The caller holds graph_mutex().
Exec *find_exec(hipGraphExec_t handle);

}  // namespace cpu
