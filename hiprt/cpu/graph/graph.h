// Graph definitions: nodes, the edges between them, and what each node does.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "graph/user_object.h"
#include "hip/hip_runtime_api.h"
#include "runtime/device.h"
#include "runtime/work.h"

namespace cpu {

struct Capture;
struct Graph;
struct Node;
using NodeList = std::vector<Node *>;
using KernelAttributes = std::map<hipLaunchAttributeID, hipLaunchAttributeValue>;

// The call that made a copy. Each has a class of its own in CLR.
enum class Flavour { Box, Flat, Driver };

// What a node does. An empty node has neither work nor child.
struct Action {
  hipGraphNodeType type = hipGraphNodeTypeEmpty;
  std::shared_ptr<Work> work;
  std::unique_ptr<Graph> child;
  hipEvent_t event = nullptr;  // event nodes: the handle that the application used
  hipMemcpy3DParms copy{};     // copies: the parameters as given
  Flavour flavour = Flavour::Box;  // copies: how they were made
  int source = 0;              // copies and fills: the devices whose memory they touch, or -1 for the host
  int target = 0;
};

// A node of a graph definition, or of an executable graph's copy of one.
struct Node {
  Graph *graph = nullptr;
  hipGraphNode_t handle = nullptr;  // null in an executable graph's private copy
  hipGraphNode_t origin = nullptr;  // the node that this one was copied from
  uint32_t index = 0;               // position in graph->nodes
  Action action;
  NodeList dependencies;  // in the order in which the edges were made, by which ExecUpdate pairs
  NodeList dependents;
  bool overlaps = false;  // hiprtGraphAddKernelNodeOverlapped made it, behind its first dependency
  KernelAttributes attributes;
  std::vector<void *> arguments;  // the array that hipGraphKernelNodeGetParams hands out
  // Set in an executable graph's private copy:
  uint32_t step = 0;    // the step of the plan that runs this node
  bool enabled = true;  // hipGraphNodeSetEnabled
};

// A graph definition.
struct Graph {
  hipGraph_t handle = nullptr;
  hipGraph_t origin = nullptr;  // the graph that this one was copied from
  Node *parent = nullptr;      // the child graph node that owns this graph
  int device = current_device();  // the device that hipGraphCreate bound it to
  Capture *capture = nullptr;  // the capture that is adding nodes
  bool instantiated = false;   // an executable graph exists; only noted for graphs with memory nodes
  std::vector<std::unique_ptr<Node>> nodes;  // in the order of creation
  UserRefs users;

  Node *add(Action action, const NodeList &dependencies);
  bool has_memory_nodes() const;
};

inline bool is_memory(hipGraphNodeType type) {
  return type == hipGraphNodeTypeMemAlloc || type == hipGraphNodeTypeMemFree;
}

// Guards graphs, executable graphs and captures. It is taken before the locks of streams and pools, never inside them.
std::mutex &graph_mutex();

// Return the live object, or null. The caller holds graph_mutex().
Graph *find_graph(hipGraph_t handle);
Node *find_node(hipGraphNode_t handle);

// Give the graph, its nodes and its child graphs handles, or take them away.
void publish(Graph &graph);
void retract(Graph &graph);

// Return copies with works of their own. A copied graph has no handles; its nodes keep their positions and know their
// origins.
Action copy_action(const Action &action);
std::unique_ptr<Graph> copy_graph(const Graph &graph);

// Returns whether a capture adds nodes to the graph or to a child graph in it.
bool is_captured(const Graph &graph);

// Looks up what a call names as the dependencies of a new node of the graph.
hipError_t find_dependencies(const Graph &graph, const hipGraphNode_t *handles, size_t count, NodeList *out);
void add_edge(Node *from, Node *to);
void remove_edge(Node *from, Node *to);
// Takes a node and its edges out of its graph. The caller drops it outside the lock: user objects of a child graph call
// the application when they end.
std::unique_ptr<Node> remove_node(Node *node);

// Returns all nodes, each after those that it depends on. Nodes on and behind a cycle are missing.
NodeList topological_order(const Graph &graph);

}  // namespace cpu
