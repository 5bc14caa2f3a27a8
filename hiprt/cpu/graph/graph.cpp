#include "graph/graph.h"

#include <algorithm>

#include "handles.h"
#include "quirks/quirks.h"
#include "runtime/status.h"

namespace cpu {
namespace {

struct Registry {
  std::mutex mutex;
  Handles<hipGraph_t, Graph> graphs;
  Handles<hipGraphNode_t, Node> nodes;
};

// Never destroyed: device threads may still drop graph work while the process exits.
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

void drop(NodeList &list, const Node *node) { list.erase(std::find(list.begin(), list.end(), node)); }

void remove_edge(Node *from, Node *to) {
  drop(from->dependents, to);
  drop(to->dependencies, from);
}

bool depends_on(const Node *to, const Node *from) {
  return std::find(to->dependencies.begin(), to->dependencies.end(), from) != to->dependencies.end();
}

// The caller drops it outside the lock: user objects of a child graph call the application when they end.
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

// The calls that list nodes: with no array they count; with a longer array than needed the rest becomes null.
hipError_t give_list(const NodeList &list, hipGraphNode_t *out, size_t *count) {
  if (out) {
    for (size_t i = 0; i < *count; ++i) out[i] = i < list.size() ? list[i]->handle : nullptr;
    *count = std::min(*count, list.size());
  } else {
    *count = list.size();
  }
  return hipSuccess;
}

// The ends of the edges a call names, all of one graph.
hipError_t find_ends(const Graph &graph, const hipGraphNode_t *from, const hipGraphNode_t *to, size_t count,
                     std::vector<std::pair<Node *, Node *>> *out) {
  if (count > 0 && (!from || !to)) return hipErrorInvalidValue;
  for (size_t i = 0; i < count; ++i) {
    Node *a = find_node(from[i]);
    Node *b = find_node(to[i]);
    if (!a || !b || a == b || a->graph != &graph || b->graph != &graph) return hipErrorInvalidValue;
    out->emplace_back(a, b);
  }
  auto sorted = *out;
  std::sort(sorted.begin(), sorted.end());
  const bool repeated = std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
  return repeated ? hipErrorInvalidValue : hipSuccess;
}

// The enumerators of HIP 5.2 start at one, and flat copies have their own, nine: section 6.5.
hipGraphNodeType type_number(const Action &action) {
  if (!quirk(Quirk::NodetypeBase1)) return action.type;
  const bool is_flat_copy = action.type == hipGraphNodeTypeMemcpy && action.flavour == Flavour::Flat;
  return static_cast<hipGraphNodeType>(is_flat_copy ? 9 : action.type + 1);
}

Node *find_copy(Graph &graph, hipGraphNode_t original) {
  for (const auto &node : graph.nodes) {
    if (node->origin == original) return node.get();
    Node *nested = node->action.child ? find_copy(*node->action.child, original) : nullptr;
    if (nested) return nested;
  }
  return nullptr;
}

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

Node *Graph::add(Action action, const NodeList &dependencies) {
  auto node = std::make_unique<Node>();
  node->graph = this;
  node->index = static_cast<uint32_t>(nodes.size());
  node->action = std::move(action);
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
    twin->attributes = node->attributes;
  }
  for (const auto &node : graph.nodes) {
    Node *twin = copy->nodes[node->index].get();
    for (const Node *from : node->dependencies) twin->dependencies.push_back(copy->nodes[from->index].get());
    for (const Node *to : node->dependents) twin->dependents.push_back(copy->nodes[to->index].get());
  }
  return copy;
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

using namespace cpu;
using Lock = std::lock_guard<std::mutex>;

hipError_t hipGraphCreate(hipGraph_t *pGraph, unsigned int flags) {
  return api([&]() -> hipError_t {
    if (!pGraph || flags != 0) return hipErrorInvalidValue;
    auto graph = std::make_unique<Graph>();
    Lock lock(graph_mutex());
    publish(*graph);
    *pGraph = graph.release()->handle;
    return hipSuccess;
  });
}

hipError_t hipGraphDestroy(hipGraph_t graph) {
  return api([&]() -> hipError_t {
    if (!graph) return hipErrorInvalidValue;
    std::unique_ptr<Graph> ended;  // outlives the lock: user objects call the application when they end
    Lock lock(graph_mutex());
    Graph *g = find_graph(graph);
    if (!g || g->parent || g->capture) return hipErrorIllegalState;
    retract(*g);
    ended.reset(g);
    return hipSuccess;
  });
}

hipError_t hipGraphClone(hipGraph_t *pGraphClone, hipGraph_t originalGraph) {
  return api([&]() -> hipError_t {
    if (!pGraphClone) return hipErrorInvalidValue;
    Lock lock(graph_mutex());
    const Graph *original = find_graph(originalGraph);
    if (!original) return hipErrorInvalidValue;
    if (original->has_memory_nodes()) return hipErrorNotSupported;
    auto copy = copy_graph(*original);
    publish(*copy);
    *pGraphClone = copy.release()->handle;
    return hipSuccess;
  });
}

hipError_t hipGraphNodeFindInClone(hipGraphNode_t *pNode, hipGraphNode_t originalNode, hipGraph_t clonedGraph) {
  return api([&]() -> hipError_t {
    Lock lock(graph_mutex());
    Graph *clone = find_graph(clonedGraph);
    if (!pNode || !originalNode || !clone || !clone->origin) return hipErrorInvalidValue;
    const Node *found = find_copy(*clone, originalNode);
    if (!found) return hipErrorInvalidValue;
    *pNode = found->handle;
    return hipSuccess;
  });
}

hipError_t hipGraphAddDependencies(hipGraph_t graph, const hipGraphNode_t *from, const hipGraphNode_t *to,
                                   size_t numDependencies) {
  return api([&]() -> hipError_t {
    Lock lock(graph_mutex());
    const Graph *g = find_graph(graph);
    std::vector<std::pair<Node *, Node *>> edges;
    if (!g) return hipErrorInvalidValue;
    if (const hipError_t error = find_ends(*g, from, to, numDependencies, &edges)) return error;
    for (const auto &[a, b] : edges) {
      if (depends_on(b, a)) return hipErrorInvalidValue;
    }
    for (const auto &[a, b] : edges) add_edge(a, b);
    return hipSuccess;
  });
}

hipError_t hipGraphRemoveDependencies(hipGraph_t graph, const hipGraphNode_t *from, const hipGraphNode_t *to,
                                      size_t numDependencies) {
  return api([&]() -> hipError_t {
    Lock lock(graph_mutex());
    const Graph *g = find_graph(graph);
    std::vector<std::pair<Node *, Node *>> edges;
    if (!g) return hipErrorInvalidValue;
    if (const hipError_t error = find_ends(*g, from, to, numDependencies, &edges)) return error;
    if (g->has_memory_nodes()) return hipErrorNotSupported;
    for (const auto &[a, b] : edges) {
      if (!depends_on(b, a)) return hipErrorInvalidValue;
    }
    for (const auto &[a, b] : edges) remove_edge(a, b);
    return hipSuccess;
  });
}

hipError_t hipGraphGetEdges(hipGraph_t graph, hipGraphNode_t *from, hipGraphNode_t *to, size_t *numEdges) {
  return api([&]() -> hipError_t {
    Lock lock(graph_mutex());
    const Graph *g = find_graph(graph);
    if (!g || !numEdges || !from != !to) return hipErrorInvalidValue;
    NodeList froms, tos;
    for (const auto &node : g->nodes) {
      for (Node *dependent : node->dependents) {
        froms.push_back(node.get());
        tos.push_back(dependent);
      }
    }
    size_t count = *numEdges;
    give_list(froms, from, &count);
    return give_list(tos, to, numEdges);
  });
}

hipError_t hipGraphGetNodes(hipGraph_t graph, hipGraphNode_t *nodes, size_t *numNodes) {
  return api([&]() -> hipError_t {
    Lock lock(graph_mutex());
    const Graph *g = find_graph(graph);
    if (!g || !numNodes) return hipErrorInvalidValue;
    NodeList list;
    for (const auto &node : g->nodes) list.push_back(node.get());
    return give_list(list, nodes, numNodes);
  });
}

hipError_t hipGraphGetRootNodes(hipGraph_t graph, hipGraphNode_t *pRootNodes, size_t *pNumRootNodes) {
  return api([&]() -> hipError_t {
    Lock lock(graph_mutex());
    const Graph *g = find_graph(graph);
    if (!g || !pNumRootNodes) return hipErrorInvalidValue;
    NodeList list;
    for (const auto &node : g->nodes) {
      if (node->dependencies.empty()) list.push_back(node.get());
    }
    return give_list(list, pRootNodes, pNumRootNodes);
  });
}

hipError_t hipGraphNodeGetDependencies(hipGraphNode_t node, hipGraphNode_t *pDependencies,
                                       size_t *pNumDependencies) {
  return api([&]() -> hipError_t {
    Lock lock(graph_mutex());
    const Node *n = find_node(node);
    if (!n || !pNumDependencies) return hipErrorInvalidValue;
    return give_list(n->dependencies, pDependencies, pNumDependencies);
  });
}

hipError_t hipGraphNodeGetDependentNodes(hipGraphNode_t node, hipGraphNode_t *pDependentNodes,
                                         size_t *pNumDependentNodes) {
  return api([&]() -> hipError_t {
    Lock lock(graph_mutex());
    const Node *n = find_node(node);
    if (!n || !pNumDependentNodes) return hipErrorInvalidValue;
    return give_list(n->dependents, pDependentNodes, pNumDependentNodes);
  });
}

hipError_t hipGraphNodeGetType(hipGraphNode_t node, hipGraphNodeType *pType) {
  return api([&]() -> hipError_t {
    Lock lock(graph_mutex());
    const Node *n = find_node(node);
    if (!n || !pType) return hipErrorInvalidValue;
    *pType = type_number(n->action);
    return hipSuccess;
  });
}

hipError_t hipGraphDestroyNode(hipGraphNode_t node) {
  return api([&]() -> hipError_t {
    std::unique_ptr<Node> removed;
    Lock lock(graph_mutex());
    Node *n = find_node(node);
    if (!n) return hipErrorInvalidValue;
    if (n->graph->has_memory_nodes()) return hipErrorNotSupported;
    removed = remove_node(n);
    return hipSuccess;
  });
}
