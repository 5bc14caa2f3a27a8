// What the nodes of a graph do: made from the parameter blocks of the API, and shown as such again.
#pragma once

#include <memory>

#include "graph/graph.h"
#include "hip/hip_runtime_api.h"

namespace cpu {

// Check parameters as the API does and take them by value. On failure *out is untouched.
// now: what the node does until then, if it exists already.
hipError_t make_action(const hipKernelNodeParams *params, Action *out, const Action *now = nullptr);
hipError_t make_action(const hipMemcpy3DParms *params, Action *out);
hipError_t make_action(const HIP_MEMCPY3D *params, Action *out);
hipError_t make_action(const hipMemsetParams *params, Action *out);
hipError_t make_action(const hipHostNodeParams *params, Action *out);
// A clone of the graph. hipErrorNotSupported: it allocates or frees memory.
hipError_t make_child_action(hipGraph_t child, Action *out);
hipError_t make_event_action(hipGraphNodeType type, hipEvent_t event, Action *out);
hipError_t make_copy_action(void *dst, const void *src, size_t size, hipMemcpyKind kind, Action *out);
// Any kind. Of an allocation the address is written into the parameters.
hipError_t make_action(hipGraphNodeParams *params, Action *out);

// The action of work that was captured instead of run. Event works go through make_event_action.
Action captured_action(std::shared_ptr<Work> work);

// Parameters as the Get calls show them. The node has the type asked for.
hipKernelNodeParams kernel_params(Node &node);
HIP_MEMCPY3D driver_copy_params(const Node &node);
hipMemsetParams fill_params(const Node &node);
void give_fill_params(const Node &node, hipMemsetParams *out);
hipHostNodeParams host_params(const Node &node);

// Whether an executable node may go from one action to another, in the terms of hipGraphExecUpdate.
hipGraphExecUpdateResult compare_actions(const Action &now, const Action &next);

}  // namespace cpu
