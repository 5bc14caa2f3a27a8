// HIP's functions that make, clone, connect, list and print graph definitions.
#include <algorithm>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "graph/dot.h"
#include "graph/graph.h"
#include "hip/hiprt_graph_api.h"
#include "quirks/quirks.h"
#include "runtime/status.h"

namespace cpu {
namespace {

bool depends_on(const Node *to, const Node *from) {
  return std::find(to->dependencies.begin(), to->dependencies.end(), from) != to->dependencies.end();
}

// Answers the calls that list nodes. Without an array they count; the rest of an array that is too long becomes null.
hipError_t give_list(const NodeList &list, hipGraphNode_t *out, size_t *count) {
  if (out) {
    for (size_t i = 0; i < *count; ++i) out[i] = i < list.size() ? list[i]->handle : nullptr;
    *count = std::min(*count, list.size());
  } else {
    *count = list.size();
  }
  return hipSuccess;
}

// Looks up the ends of the edges that a call names, all of one graph.
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

// Returns a node's type. The enumerators of HIP 5.2 start at one, and flat copies have one of their own, nine.
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
    std::unique_ptr<Graph> ended;  // ends after the lock: user objects call the application then
    Lock lock(graph_mutex());
    Graph *g = find_graph(graph);
    if (!g || g->parent || is_captured(*g)) return hipErrorIllegalState;
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

hipError_t hiprtGraphGetEdgesWithOverlap(hipGraph_t graph, hipGraphNode_t *from, hipGraphNode_t *to,
                                         unsigned char *overlaps, size_t *numEdges) {
  return api([&]() -> hipError_t {
    Lock lock(graph_mutex());
    const Graph *g = find_graph(graph);
    if (!g || !numEdges || !from != !to) return hipErrorInvalidValue;
    NodeList froms, tos;
    for (const auto &node : g->nodes) {
      for (Node *dependent : node->dependents) {
        if (overlaps && tos.size() < *numEdges)
          overlaps[tos.size()] = dependent->overlaps && dependent->dependencies.front() == node.get();
        froms.push_back(node.get());
        tos.push_back(dependent);
      }
    }
    size_t count = *numEdges;
    give_list(froms, from, &count);
    return give_list(tos, to, numEdges);
  });
}

hipError_t hipGraphGetEdges(hipGraph_t graph, hipGraphNode_t *from, hipGraphNode_t *to, size_t *numEdges) {
  return hiprtGraphGetEdgesWithOverlap(graph, from, to, nullptr, numEdges);
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
    if (n->action.child && is_captured(*n->action.child)) return hipErrorIllegalState;
    removed = remove_node(n);
    return hipSuccess;
  });
}

hipError_t hipGraphDebugDotPrint(hipGraph_t graph, const char *path, unsigned int flags) {
  return api([&]() -> hipError_t {
    if (!path) return hipErrorInvalidValue;
    std::string text;
    {
      Lock lock(graph_mutex());
      const Graph *g = find_graph(graph);
      if (!g) return hipErrorInvalidValue;
      text = dot_text(*g, flags);
    }
    std::ofstream file(path);
    file << text;
    file.close();
    return file ? hipSuccess : hipErrorOperatingSystem;
  });
}
