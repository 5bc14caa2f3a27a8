#include "graph/graph.h"

#include <algorithm>

#include "handles.h"
#include "quirks/quirks.h"
#include "runtime/launch.h"

namespace cpu {
namespace {

struct Registry {
  std::mutex mutex;
  Handles<hipGraph_t, Graph> graphs;
  Handles<hipGraphNode_t, Node> nodes;
};

// It is never destroyed, because the device thread may still drop graph work while the process exits.
Registry &registry() {
  static Registry *instance = new Registry;
  return *instance;
}

void publish(Node &node) {
  node.handle = registry().nodes.add(&node);
  if (node.action.child) publish(*node.action.child);
}

void retract(Node &node) {
  registry().nodes.remove(node.handle, quirk(Quirk::NodeHandleReuse));
  if (node.action.child) retract(*node.action.child);
}

bool is_cooperative(const Action &action) {
  return action.type == hipGraphNodeTypeKernel && static_cast<const KernelWork &>(*action.work).is_cooperative;
}

void drop(NodeList &list, const Node *node) { list.erase(std::find(list.begin(), list.end(), node)); }

}  // namespace

std::mutex &graph_mutex() { return registry().mutex; }
Graph *find_graph(hipGraph_t handle) { return registry().graphs.find(handle); }
Node *find_node(hipGraphNode_t handle) { return registry().nodes.find(handle); }

void publish(Graph &graph) {
  graph.handle = registry().graphs.add(&graph);
  for (const auto &node : graph.nodes) publish(*node);
}

void retract(Graph &graph) {
  registry().graphs.remove(graph.handle);
  for (const auto &node : graph.nodes) retract(*node);
}

void add_edge(Node *from, Node *to) {
  to->dependencies.push_back(from);
  from->dependents.push_back(to);
}

void remove_edge(Node *from, Node *to) {
  drop(from->dependents, to);
  drop(to->dependencies, from);
}

std::unique_ptr<Node> remove_node(Node *node) {
  retract(*node);
  for (Node *from : NodeList(node->dependencies)) remove_edge(from, node);
  for (Node *to : NodeList(node->dependents)) remove_edge(node, to);
  auto &nodes = node->graph->nodes;
  std::unique_ptr<Node> removed = std::move(nodes[node->index]);
  nodes.erase(nodes.begin() + node->index);
  for (uint32_t i = 0; i < nodes.size(); ++i) nodes[i]->index = i;
  return removed;
}

Node *Graph::add(Action action, const NodeList &dependencies) {
  auto node = std::make_unique<Node>();
  node->graph = this;
  node->index = static_cast<uint32_t>(nodes.size());
  node->action = std::move(action);
  // A cooperative launch that was captured shows as one.
  if (is_cooperative(node->action)) node->attributes[hipLaunchAttributeCooperative].cooperative = 1;
  if (node->action.child) node->action.child->parent = node.get();
  for (Node *from : dependencies) add_edge(from, node.get());
  nodes.push_back(std::move(node));
  if (handle) publish(*nodes.back());
  return nodes.back().get();
}

bool Graph::has_memory_nodes() const {
  return std::any_of(nodes.begin(), nodes.end(), [](const auto &node) { return is_memory(node->action.type); });
}

Action copy_action(const Action &action) {
  Action copy;
  copy.type = action.type;
  copy.event = action.event;
  copy.copy = action.copy;
  copy.flavour = action.flavour;
  copy.source = action.source;
  copy.target = action.target;
  if (action.work) copy.work = action.work->clone();
  if (action.child) copy.child = copy_graph(*action.child);
  return copy;
}

std::unique_ptr<Graph> copy_graph(const Graph &graph) {
  auto copy = std::make_unique<Graph>();
  copy->origin = graph.handle;
  copy->users = graph.users;
  copy->device = graph.device;
  for (const auto &node : graph.nodes) {
    Node *twin = copy->add(copy_action(node->action), {});
    twin->origin = node->handle;
    twin->overlaps = node->overlaps;
    twin->attributes = node->attributes;
  }
  for (const auto &node : graph.nodes) {
    Node *twin = copy->nodes[node->index].get();
    for (const Node *from : node->dependencies) twin->dependencies.push_back(copy->nodes[from->index].get());
    for (const Node *to : node->dependents) twin->dependents.push_back(copy->nodes[to->index].get());
  }
  return copy;
}

bool is_captured(const Graph &graph) {
  const auto inside = [](const auto &node) { return node->action.child && is_captured(*node->action.child); };
  return graph.capture || std::any_of(graph.nodes.begin(), graph.nodes.end(), inside);
}

hipError_t find_dependencies(const Graph &graph, const hipGraphNode_t *handles, size_t count, NodeList *out) {
  if (count > 0 && !handles) return hipErrorInvalidValue;
  for (size_t i = 0; i < count; ++i) {
    Node *node = find_node(handles[i]);
    if (!node || node->graph != &graph) return hipErrorInvalidValue;
    out->push_back(node);
  }
  NodeList sorted = *out;
  std::sort(sorted.begin(), sorted.end());
  const bool repeated = std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
  return repeated ? hipErrorInvalidValue : hipSuccess;
}

NodeList topological_order(const Graph &graph) {
  NodeList order;
  std::vector<size_t> waiting_for(graph.nodes.size());
  for (const auto &node : graph.nodes) {
    waiting_for[node->index] = node->dependencies.size();
    if (node->dependencies.empty()) order.push_back(node.get());
  }
  for (size_t done = 0; done < order.size(); ++done) {
    for (Node *to : order[done]->dependents) {
      if (--waiting_for[to->index] == 0) order.push_back(to);
    }
  }
  return order;
}

}  // namespace cpu
