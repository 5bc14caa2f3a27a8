// HIP's functions that instantiate, launch, update and destroy executable graphs.
#include <cstdio>
#include <memory>
#include <mutex>
#include <vector>

#include "graph/capture_rules.h"
#include "graph/clr_update.h"
#include "graph/exec.h"
#include "graph/exec_update.h"
#include "graph/graph_memory.h"
#include "quirks/quirks.h"
#include "runtime/status.h"
#include "runtime/stream.h"

namespace cpu {
namespace {

using Lock = std::lock_guard<std::mutex>;

// Returns a node on a cycle of the graph or of a graph inside it, or null.
const Node *find_cycle(const Graph &graph) {
  std::vector<bool> ordered(graph.nodes.size());
  for (const Node *node : topological_order(graph)) ordered[node->index] = true;
  for (const auto &node : graph.nodes) {
    if (!ordered[node->index]) return node.get();
    const Node *inner = node->action.child ? find_cycle(*node->action.child) : nullptr;
    if (inner) return inner;
  }
  return nullptr;
}

// Returns whether HIP takes these flags: one of those known, because CLR knows no sums (hip_graph.cpp:1371 and 1392 of
// ROCm/clr @f9f995c6d).
bool is_flag(unsigned long long flags, unsigned long long known) {
  return (flags & ~known) == 0 && (flags & (flags - 1)) == 0;
}

struct Outcome {
  hipGraphInstantiateResult result = hipGraphInstantiateError;
  hipGraphNode_t node = nullptr;
};

hipError_t instantiate(hipGraphExec_t *out, hipGraph_t handle, unsigned long long flags, Outcome *outcome) {
  Lock lock(graph_mutex());
  Graph *graph = find_graph(handle);
  if (!graph) return hipErrorInvalidValue;
  if (is_captured(*graph)) return hipErrorIllegalState;
  if (const Node *node = find_cycle(*graph)) {
    *outcome = {hipGraphInstantiateInvalidStructure, node->handle};
    return hipErrorInvalidValue;
  }
  const bool memory = graph->has_memory_nodes();
  if (memory && graph->instantiated) {
    outcome->result = hipGraphInstantiateNodeOperationNotSupported;
    return hipErrorNotSupported;
  }
  std::unique_ptr<Exec> exec;
  if (const hipError_t error = Exec::create(*graph, flags, &exec)) return error;
  publish(*exec);
  graph->instantiated = memory;
  outcome->result = hipGraphInstantiateSuccess;
  *out = exec.release()->handle;
  return hipSuccess;
}

hipError_t launch(hipGraphExec_t handle, hipStream_t stream) {
  if (!is_valid(stream)) return no_such_handle();
  if (const hipError_t error = capture_forbids_on(canonical(stream))) return error;
  if (is_legacy(stream)) {
    if (const hipError_t error = capture_forbids_legacy()) return error;
  }
  Lock lock(graph_mutex());
  Exec *exec = find_exec(handle);
  if (!exec) return hipErrorInvalidValue;
  const bool auto_free = exec->flags & hipGraphInstantiateFlagAutoFreeOnLaunch;
  if (auto_free && quirk(Quirk::AutofreeDeviceWide)) {
    if (const hipError_t error = free_all_graph_memory(stream)) return error;
  }
  if (const hipError_t error = queue_effects(exec->memory, auto_free)) return error;
  return queue_launch(stream, exec->order, exec->launch_plan(), exec->series);
}

// CLR's hipGraphInstantiate and WithFlags store a local that a failure leaves uninitialised (hip_graph.cpp:1363-1380).
// This value stands for it.
hipGraphExec_t garbage() { return reinterpret_cast<hipGraphExec_t>(uintptr_t{0xFBFBFBFBFBFBFBF0}); }

void spoil_handle(hipError_t error, hipGraphExec_t *out) {
  if (error && quirk(Quirk::InstantiateGarbageHandle)) *out = garbage();
}

hipError_t upload(hipGraphExec_t handle, hipStream_t stream) {
  if (!is_valid(stream)) return no_such_handle();
  if (const hipError_t error = capture_forbids_on(canonical(stream))) return error;
  Lock lock(graph_mutex());
  return find_exec(handle) ? hipSuccess : hipErrorInvalidValue;
}

}  // namespace
}  // namespace cpu

using namespace cpu;

hipError_t hipGraphInstantiate(hipGraphExec_t *pGraphExec, hipGraph_t graph, hipGraphNode_t *pErrorNode,
                               char *pLogBuffer, size_t bufferSize) {
  return api([&]() -> hipError_t {
    if (!pGraphExec) return hipErrorInvalidValue;
    Outcome outcome;
    const hipError_t error = instantiate(pGraphExec, graph, 0, &outcome);
    spoil_handle(error, pGraphExec);
    if (pErrorNode) *pErrorNode = outcome.node;
    if (pLogBuffer && bufferSize > 0) {
      const char *text = outcome.node ? "the graph has a cycle" : "";
      std::snprintf(pLogBuffer, bufferSize, "%s", text);
    }
    return error;
  });
}

hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t *pGraphExec, hipGraph_t graph, unsigned long long flags) {
  return api([&]() -> hipError_t {
    constexpr unsigned long long kKnown = hipGraphInstantiateFlagAutoFreeOnLaunch |
                                          hipGraphInstantiateFlagDeviceLaunch |
                                          hipGraphInstantiateFlagUseNodePriority;
    if (!pGraphExec) return hipErrorInvalidValue;
    Outcome outcome;
    const hipError_t error = is_flag(flags, kKnown) ? instantiate(pGraphExec, graph, flags, &outcome) : hipErrorInvalidValue;
    spoil_handle(error, pGraphExec);
    return error;
  });
}

hipError_t hipGraphInstantiateWithParams(hipGraphExec_t *pGraphExec, hipGraph_t graph,
                                         hipGraphInstantiateParams *instantiateParams) {
  return api([&]() -> hipError_t {
    constexpr unsigned long long kKnown =
        hipGraphInstantiateFlagAutoFreeOnLaunch | hipGraphInstantiateFlagUpload | hipGraphInstantiateFlagDeviceLaunch |
        hipGraphInstantiateFlagUseNodePriority;
    if (!pGraphExec || !instantiateParams) return hipErrorInvalidValue;
    Outcome outcome;
    hipError_t error = hipErrorInvalidValue;
    const unsigned long long flags = instantiateParams->flags;
    if (is_flag(flags, kKnown)) error = instantiate(pGraphExec, graph, flags, &outcome);
    instantiateParams->result_out = outcome.result;
    instantiateParams->errNode_out = outcome.node;
    if (error || !(flags & hipGraphInstantiateFlagUpload)) return error;
    return upload(*pGraphExec, instantiateParams->uploadStream);
  });
}

hipError_t hipGraphLaunch(hipGraphExec_t graphExec, hipStream_t stream) {
  return api([&] { return launch(graphExec, stream); });
}

hipError_t hipGraphUpload(hipGraphExec_t graphExec, hipStream_t stream) {
  return api([&] { return upload(graphExec, stream); });
}

hipError_t hipGraphExecDestroy(hipGraphExec_t graphExec) {
  return api([&]() -> hipError_t {
    if (quirk(Quirk::InstantiateGarbageHandle) && graphExec == garbage()) {
      crash(Quirk::InstantiateGarbageHandle, "the handle that a failed hipGraphInstantiate left was destroyed");
    }
    std::unique_ptr<Exec> ended;  // ends after the lock: user objects call the application then
    Lock lock(graph_mutex());
    ended.reset(find_exec(graphExec));
    if (!ended) return hipErrorInvalidValue;
    retract(*ended);
    if (quirk(Quirk::DestroyImmediate)) ended->series->destroyed.store(true, std::memory_order_release);
    Graph *source = find_graph(ended->source);
    // CLR never resets the flag (hip_graph.cpp:1302).
    if (source && !quirk(Quirk::AllocNodeOnce)) source->instantiated = false;
    return hipSuccess;
  });
}

hipError_t hipGraphExecGetFlags(hipGraphExec_t graphExec, unsigned long long *flags) {
  return api([&]() -> hipError_t {
    Lock lock(graph_mutex());
    const Exec *exec = find_exec(graphExec);
    if (!exec || !flags) return hipErrorInvalidValue;
    *flags = exec->flags;
    return hipSuccess;
  });
}

hipError_t hipGraphExecUpdate(hipGraphExec_t hGraphExec, hipGraph_t hGraph, hipGraphNode_t *hErrorNode_out,
                              hipGraphExecUpdateResult *updateResult_out) {
  return api([&]() -> hipError_t {
    if (!hErrorNode_out || !updateResult_out) return hipErrorInvalidValue;
    *hErrorNode_out = nullptr;
    *updateResult_out = hipGraphExecUpdateError;
    Lock lock(graph_mutex());
    Exec *exec = find_exec(hGraphExec);
    const Graph *graph = find_graph(hGraph);
    if (!exec || !graph) return hipErrorInvalidValue;
    const Node *culprit = nullptr;
    const bool by_position = quirk(Quirk::UpdateBfsCountOnly) || quirk(Quirk::UpdateNoDepCheck);
    const auto method = by_position ? update_by_position : update_by_structure;
    const hipError_t error = method(*exec, *graph, &culprit, updateResult_out);
    if (culprit) *hErrorNode_out = culprit->handle;
    return error;
  });
}

// Returns the bytes of arguments that an executable graph has taken, or 0 for an unknown handle. This function is not
// HIP's: tests of update budgets call it.
extern "C" __attribute__((visibility("default"))) size_t hiprtCpuKernargBytes(hipGraphExec_t graphExec);

size_t hiprtCpuKernargBytes(hipGraphExec_t graphExec) {
  std::lock_guard<std::mutex> lock(graph_mutex());
  const Exec *exec = find_exec(graphExec);
  return exec ? exec->kernargs.bytes() : 0;
}
