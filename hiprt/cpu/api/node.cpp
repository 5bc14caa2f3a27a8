// HIP's functions that add nodes, and that get and set the parameters of nodes of a graph definition.
#include <algorithm>
#include <cstring>

#include "enumerator.h"
#include "graph/graph_memory.h"
#include "graph/node.h"
#include "hip/hiprt_graph_api.h"
#include "quirks/quirks.h"
#include "runtime/device.h"
#include "runtime/launch.h"
#include "runtime/properties.h"
#include "runtime/status.h"

namespace cpu {
namespace {

using Lock = std::lock_guard<std::mutex>;

// In CLR a node with wrong dependencies is in the graph all the same, with the edges before the wrong one
// (hip_graph.cpp:53-70). Its parameters have been checked by then.
template <class Make>
void keep_failed_node(hipGraphNode_t *out, Graph &graph, const hipGraphNode_t *dependencies, size_t count, Make make) {
  Action action;
  if (!quirk(Quirk::AddFailKeepsNode) || make(graph, &action)) return;
  NodeList list;
  for (size_t i = 0; dependencies && i < count; ++i) {
    Node *from = find_node(dependencies[i]);
    if (!from || from->graph != &graph || std::find(list.begin(), list.end(), from) != list.end()) break;
    list.push_back(from);
  }
  *out = graph.add(std::move(action), list)->handle;
}

// Adds a node; make(graph, &action) gives its action. A call that fails leaves nothing behind.
template <class Make>
hipError_t add_node(hipGraphNode_t *out, hipGraph_t graph, const hipGraphNode_t *dependencies, size_t count,
                    Make make) {
  return api([&]() -> hipError_t {
    if (!out) return hipErrorInvalidValue;
    Lock lock(graph_mutex());
    Graph *g = find_graph(graph);
    if (!g) return hipErrorInvalidValue;
    NodeList list;
    if (const hipError_t error = find_dependencies(*g, dependencies, count, &list)) {
      keep_failed_node(out, *g, dependencies, count, make);
      return error;
    }
    Action action;
    if (const hipError_t error = make(*g, &action)) return error;
    if (g->parent && is_memory(action.type)) return hipErrorNotSupported;
    if (frees_same(*g, action)) return hipErrorInvalidValue;
    *out = g->add(std::move(action), list)->handle;
    return hipSuccess;
  });
}

// Calls get(node) with the live node, if it has the type.
template <class Get>
hipError_t get_node(hipGraphNode_t handle, hipGraphNodeType type, const void *out, Get get) {
  return api([&]() -> hipError_t {
    if (!out) return hipErrorInvalidValue;
    Lock lock(graph_mutex());
    Node *node = find_node(handle);
    if (!node || node->action.type != type) return hipErrorInvalidValue;
    get(*node);
    return hipSuccess;
  });
}

// Changes a node; make(now, &action) gives the action that it has from now on.
template <class Make>
hipError_t set_node(hipGraphNode_t handle, int type, Make make) {
  return api([&]() -> hipError_t {
    Lock lock(graph_mutex());
    Node *node = find_node(handle);
    if (!node || node->action.type != type) return hipErrorInvalidValue;
    Action action;
    if (const hipError_t error = make(*node, &action)) return error;
    if (refuses_rows(action)) return hipErrorInvalidValue;
    stay_cooperative(node->action, &action);
    node->action = std::move(action);
    return hipSuccess;
  });
}

// CLR's SetParams takes over the pointers in the array that GetParams handed out, and frees them later
// (hip_graph_internal.hpp:1294-1299, ROCm/clr#138). Unchanged pointers are the node's own, and nothing happens.
void refuse_own_array(const Node &node, const hipKernelNodeParams *params) {
  if (!quirk(Quirk::GetparamsAlias) || !params || node.arguments.empty()) return;
  if (params->kernelParams != node.arguments.data()) return;
  const auto &work = static_cast<const KernelWork &>(*node.action.work);
  for (size_t i = 0; i < node.arguments.size(); ++i) {
    if (node.arguments[i] == work.argument(i)) continue;
    crash(Quirk::GetparamsAlias, "SetParams took a changed array of GetParams and frees the application's memory");
  }
}

// HIP up to 5.4 has no such nodes, and gives their enumerators other meanings.
bool knows_memory_nodes() { return !quirk(Quirk::NodetypeBase1) && !quirk(Quirk::Nodetype54); }

// CLR's node takes a copy of the graph as it is before the node is in it (hip_graph.cpp:1280 of ROCm/clr @f9f995c6d).
bool refuses_itself() { return !quirk(Quirk::ChildOfItself); }

bool is_attribute(int id) {
  return id == hipLaunchAttributeAccessPolicyWindow || id == hipLaunchAttributeCooperative ||
         id == hipLaunchAttributeSynchronizationPolicy || id == hipLaunchAttributePriority ||
         id == hipLaunchAttributeMemSyncDomainMap || id == hipLaunchAttributeMemSyncDomain;
}

bool is_attribute_value(int id, const hipLaunchAttributeValue &value) {
  if (id != hipLaunchAttributeAccessPolicyWindow) return true;
  const hipAccessPolicyWindow &window = value.accessPolicyWindow;
  const bool fits = window.num_bytes <= static_cast<size_t>(properties(current_device()).accessPolicyMaxWindowSize);
  return fits && window.hitRatio >= 0 && window.hitRatio <= 1 && window.missProp != hipAccessPropertyPersisting;
}

}  // namespace
}  // namespace cpu

using namespace cpu;

hipError_t hipGraphAddNode(hipGraphNode_t *pGraphNode, hipGraph_t graph, const hipGraphNode_t *pDependencies,
                           size_t numDependencies, hipGraphNodeParams *nodeParams) {
  return add_node(pGraphNode, graph, pDependencies, numDependencies, [&](Graph &g, Action *action) {
    const bool child = nodeParams && number_of(nodeParams->type) == hipGraphNodeTypeGraph;
    const bool itself = child && nodeParams->graph.graph == g.handle;
    return itself && refuses_itself() ? hipErrorInvalidValue : make_action(nodeParams, action);
  });
}

hipError_t hipGraphAddKernelNode(hipGraphNode_t *pGraphNode, hipGraph_t graph, const hipGraphNode_t *pDependencies,
                                 size_t numDependencies, const hipKernelNodeParams *pNodeParams) {
  return add_node(pGraphNode, graph, pDependencies, numDependencies,
                  [&](Graph &, Action *action) { return make_action(pNodeParams, action); });
}

// The CPU device overlaps nothing: the node starts when the one before it has finished.
hipError_t hiprtGraphAddKernelNodeOverlapped(hipGraphNode_t *node, hipGraph_t graph, hipGraphNode_t after,
                                             const hipKernelNodeParams *params) {
  const hipError_t error = hipGraphAddKernelNode(node, graph, &after, 1, params);
  if (error) return error;
  return get_node(*node, hipGraphNodeTypeKernel, node, [](Node &made) { made.overlaps = true; });
}

hipError_t hipGraphAddMemcpyNode(hipGraphNode_t *pGraphNode, hipGraph_t graph, const hipGraphNode_t *pDependencies,
                                 size_t numDependencies, const hipMemcpy3DParms *pCopyParams) {
  return add_node(pGraphNode, graph, pDependencies, numDependencies,
                  [&](Graph &, Action *action) { return make_action(pCopyParams, action); });
}

hipError_t hipGraphAddMemcpyNode1D(hipGraphNode_t *pGraphNode, hipGraph_t graph, const hipGraphNode_t *pDependencies,
                                   size_t numDependencies, void *dst, const void *src, size_t count,
                                   hipMemcpyKind kind) {
  return add_node(pGraphNode, graph, pDependencies, numDependencies,
                  [&](Graph &, Action *action) { return make_copy_action(dst, src, count, kind, action); });
}

hipError_t hipDrvGraphAddMemcpyNode(hipGraphNode_t *phGraphNode, hipGraph_t hGraph, const hipGraphNode_t *dependencies,
                                    size_t numDependencies, const HIP_MEMCPY3D *copyParams, hipCtx_t) {
  return add_node(phGraphNode, hGraph, dependencies, numDependencies,
                  [&](Graph &, Action *action) { return make_action(copyParams, action); });
}

hipError_t hipGraphAddMemsetNode(hipGraphNode_t *pGraphNode, hipGraph_t graph, const hipGraphNode_t *pDependencies,
                                 size_t numDependencies, const hipMemsetParams *pMemsetParams) {
  return add_node(pGraphNode, graph, pDependencies, numDependencies,
                  [&](Graph &, Action *action) { return make_action(pMemsetParams, action); });
}

hipError_t hipDrvGraphAddMemsetNode(hipGraphNode_t *phGraphNode, hipGraph_t hGraph, const hipGraphNode_t *dependencies,
                                    size_t numDependencies, const hipMemsetParams *memsetParams, hipCtx_t) {
  return hipGraphAddMemsetNode(phGraphNode, hGraph, dependencies, numDependencies, memsetParams);
}

hipError_t hipGraphAddHostNode(hipGraphNode_t *pGraphNode, hipGraph_t graph, const hipGraphNode_t *pDependencies,
                               size_t numDependencies, const hipHostNodeParams *pNodeParams) {
  return add_node(pGraphNode, graph, pDependencies, numDependencies,
                  [&](Graph &, Action *action) { return make_action(pNodeParams, action); });
}

hipError_t hipGraphAddChildGraphNode(hipGraphNode_t *pGraphNode, hipGraph_t graph, const hipGraphNode_t *pDependencies,
                                     size_t numDependencies, hipGraph_t childGraph) {
  return add_node(pGraphNode, graph, pDependencies, numDependencies, [&](Graph &g, Action *action) {
    return childGraph == g.handle && refuses_itself() ? hipErrorInvalidValue : make_child_action(childGraph, action);
  });
}

hipError_t hipGraphAddEmptyNode(hipGraphNode_t *pGraphNode, hipGraph_t graph, const hipGraphNode_t *pDependencies,
                                size_t numDependencies) {
  return add_node(pGraphNode, graph, pDependencies, numDependencies, [](Graph &, Action *) { return hipSuccess; });
}

hipError_t hipGraphAddEventRecordNode(hipGraphNode_t *pGraphNode, hipGraph_t graph,
                                      const hipGraphNode_t *pDependencies, size_t numDependencies, hipEvent_t event) {
  return add_node(pGraphNode, graph, pDependencies, numDependencies, [&](Graph &, Action *action) {
    return make_event_action(hipGraphNodeTypeEventRecord, event, action);
  });
}

hipError_t hipGraphAddEventWaitNode(hipGraphNode_t *pGraphNode, hipGraph_t graph, const hipGraphNode_t *pDependencies,
                                    size_t numDependencies, hipEvent_t event) {
  return add_node(pGraphNode, graph, pDependencies, numDependencies, [&](Graph &, Action *action) {
    return make_event_action(hipGraphNodeTypeWaitEvent, event, action);
  });
}

hipError_t hipGraphAddMemAllocNode(hipGraphNode_t *pGraphNode, hipGraph_t graph, const hipGraphNode_t *pDependencies,
                                   size_t numDependencies, hipMemAllocNodeParams *pNodeParams) {
  return add_node(pGraphNode, graph, pDependencies, numDependencies, [&](Graph &, Action *action) {
    return knows_memory_nodes() ? make_alloc_action(pNodeParams, action) : hipErrorNotSupported;
  });
}

hipError_t hipGraphAddMemFreeNode(hipGraphNode_t *pGraphNode, hipGraph_t graph, const hipGraphNode_t *pDependencies,
                                  size_t numDependencies, void *dev_ptr) {
  return add_node(pGraphNode, graph, pDependencies, numDependencies, [&](Graph &, Action *action) {
    return knows_memory_nodes() ? make_free_action(dev_ptr, action) : hipErrorNotSupported;
  });
}

hipError_t hipDrvGraphAddMemFreeNode(hipGraphNode_t *phGraphNode, hipGraph_t hGraph, const hipGraphNode_t *dependencies,
                                     size_t numDependencies, void *dptr) {
  return hipGraphAddMemFreeNode(phGraphNode, hGraph, dependencies, numDependencies, dptr);
}

hipError_t hipGraphKernelNodeGetParams(hipGraphNode_t node, hipKernelNodeParams *pNodeParams) {
  return get_node(node, hipGraphNodeTypeKernel, pNodeParams, [&](Node &n) { *pNodeParams = kernel_params(n); });
}

hipError_t hipGraphMemcpyNodeGetParams(hipGraphNode_t node, hipMemcpy3DParms *pNodeParams) {
  return get_node(node, hipGraphNodeTypeMemcpy, pNodeParams, [&](Node &n) {
    *pNodeParams = n.action.copy;
    // CLR's GraphMemcpyNode1D keeps what it copies apart from the parameters of its base, which nobody has set.
    const bool is_junk = n.action.flavour == Flavour::Flat && quirk(Quirk::GetparamsFlatCopy);
    if (is_junk) std::memset(static_cast<void *>(pNodeParams), 0xFB, sizeof *pNodeParams);
  });
}

hipError_t hipDrvGraphMemcpyNodeGetParams(hipGraphNode_t hNode, HIP_MEMCPY3D *nodeParams) {
  return get_node(hNode, hipGraphNodeTypeMemcpy, nodeParams, [&](Node &n) { *nodeParams = driver_copy_params(n); });
}

hipError_t hipGraphMemsetNodeGetParams(hipGraphNode_t node, hipMemsetParams *pNodeParams) {
  return get_node(node, hipGraphNodeTypeMemset, pNodeParams, [&](Node &n) { give_fill_params(n, pNodeParams); });
}

hipError_t hipGraphHostNodeGetParams(hipGraphNode_t node, hipHostNodeParams *pNodeParams) {
  return get_node(node, hipGraphNodeTypeHost, pNodeParams, [&](Node &n) { *pNodeParams = host_params(n); });
}

hipError_t hipGraphChildGraphNodeGetGraph(hipGraphNode_t node, hipGraph_t *pGraph) {
  return get_node(node, hipGraphNodeTypeGraph, pGraph, [&](Node &n) { *pGraph = n.action.child->handle; });
}

hipError_t hipGraphEventRecordNodeGetEvent(hipGraphNode_t node, hipEvent_t *event_out) {
  return get_node(node, hipGraphNodeTypeEventRecord, event_out, [&](Node &n) { *event_out = n.action.event; });
}

hipError_t hipGraphEventWaitNodeGetEvent(hipGraphNode_t node, hipEvent_t *event_out) {
  return get_node(node, hipGraphNodeTypeWaitEvent, event_out, [&](Node &n) { *event_out = n.action.event; });
}

hipError_t hipGraphMemAllocNodeGetParams(hipGraphNode_t node, hipMemAllocNodeParams *pNodeParams) {
  return get_node(node, hipGraphNodeTypeMemAlloc, pNodeParams, [&](Node &n) { *pNodeParams = alloc_params(n); });
}

hipError_t hipGraphMemFreeNodeGetParams(hipGraphNode_t node, void *dev_ptr) {
  return get_node(node, hipGraphNodeTypeMemFree, dev_ptr,
                  [&](Node &n) { *static_cast<void **>(dev_ptr) = freed_address(n); });
}

hipError_t hipGraphNodeSetParams(hipGraphNode_t node, hipGraphNodeParams *nodeParams) {
  if (!nodeParams) return done(hipErrorInvalidValue);
  const int type = number_of(nodeParams->type);
  switch (type) {
    case hipGraphNodeTypeGraph:
    case hipGraphNodeTypeMemAlloc:
    case hipGraphNodeTypeMemFree: return done(hipErrorNotSupported);
    default:
      return set_node(node, type, [&](const Node &, Action *action) {
    return make_action(nodeParams, action);
  });
  }
}

hipError_t hipGraphKernelNodeSetParams(hipGraphNode_t node, const hipKernelNodeParams *pNodeParams) {
  return set_node(node, hipGraphNodeTypeKernel, [&](const Node &now, Action *action) {
    refuse_own_array(now, pNodeParams);
    return make_action(pNodeParams, action, &now.action);
  });
}

hipError_t hipGraphMemcpyNodeSetParams(hipGraphNode_t node, const hipMemcpy3DParms *pNodeParams) {
  return set_node(node, hipGraphNodeTypeMemcpy, [&](const Node &, Action *action) {
    return make_action(pNodeParams, action);
  });
}

hipError_t hipGraphMemcpyNodeSetParams1D(hipGraphNode_t node, void *dst, const void *src, size_t count,
                                         hipMemcpyKind kind) {
  return set_node(node, hipGraphNodeTypeMemcpy, [&](const Node &, Action *action) {
    return dst == src ? hipErrorInvalidValue : make_copy_action(dst, src, count, kind, action);
  });
}

hipError_t hipDrvGraphMemcpyNodeSetParams(hipGraphNode_t hNode, const HIP_MEMCPY3D *nodeParams) {
  return set_node(hNode, hipGraphNodeTypeMemcpy, [&](const Node &, Action *action) {
    return make_action(nodeParams, action);
  });
}

hipError_t hipGraphMemsetNodeSetParams(hipGraphNode_t node, const hipMemsetParams *pNodeParams) {
  return set_node(node, hipGraphNodeTypeMemset, [&](const Node &, Action *action) {
    return make_action(pNodeParams, action);
  });
}

hipError_t hipGraphHostNodeSetParams(hipGraphNode_t node, const hipHostNodeParams *pNodeParams) {
  return set_node(node, hipGraphNodeTypeHost, [&](const Node &, Action *action) {
    return make_action(pNodeParams, action);
  });
}

hipError_t hipGraphEventRecordNodeSetEvent(hipGraphNode_t node, hipEvent_t event) {
  return set_node(node, hipGraphNodeTypeEventRecord, [&](const Node &, Action *action) {
    return make_event_action(hipGraphNodeTypeEventRecord, event, action);
  });
}

hipError_t hipGraphEventWaitNodeSetEvent(hipGraphNode_t node, hipEvent_t event) {
  return set_node(node, hipGraphNodeTypeWaitEvent, [&](const Node &, Action *action) {
    return make_event_action(hipGraphNodeTypeWaitEvent, event, action);
  });
}

hipError_t hipGraphKernelNodeSetAttribute(hipGraphNode_t hNode, hipLaunchAttributeID attr,
                                          const hipLaunchAttributeValue *value) {
  return api([&]() -> hipError_t {
    const int id = number_of(attr);
    if (!value || !is_attribute(id) || !is_attribute_value(id, *value)) return hipErrorInvalidValue;
    Lock lock(graph_mutex());
    Node *node = find_node(hNode);
    if (!node || node->action.type != hipGraphNodeTypeKernel) return hipErrorInvalidValue;
    if (id == hipLaunchAttributeCooperative) {
      if (const hipError_t error = set_cooperative(*node, value->cooperative != 0)) return error;
    }
    node->attributes[attr] = *value;
    return hipSuccess;
  });
}

hipError_t hipGraphKernelNodeGetAttribute(hipGraphNode_t hNode, hipLaunchAttributeID attr,
                                          hipLaunchAttributeValue *value) {
  if (!is_attribute(number_of(attr))) return done(hipErrorInvalidValue);
  return get_node(hNode, hipGraphNodeTypeKernel, value, [&](Node &n) {
    const auto found = n.attributes.find(attr);
    *value = found == n.attributes.end() ? hipLaunchAttributeValue{} : found->second;
  });
}

hipError_t hipGraphKernelNodeCopyAttributes(hipGraphNode_t hSrc, hipGraphNode_t hDst) {
  return api([&]() -> hipError_t {
    Lock lock(graph_mutex());
    const Node *from = find_node(hSrc);
    Node *to = find_node(hDst);
    if (!from || !to) return hipErrorInvalidValue;
    if (from->action.type != hipGraphNodeTypeKernel || to->action.type != hipGraphNodeTypeKernel) {
      return hipErrorInvalidValue;
    }
    const auto cooperative = from->attributes.find(hipLaunchAttributeCooperative);
    const bool is_cooperative = cooperative != from->attributes.end() && cooperative->second.cooperative;
    if (const hipError_t error = set_cooperative(*to, is_cooperative)) return error;
    to->attributes = from->attributes;
    return hipSuccess;
  });
}
