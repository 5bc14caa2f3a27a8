// Actions of nodes, made from the parameter blocks of the API, and the parameter blocks that show them again.
#pragma once

#include <memory>

#include "graph/graph.h"
#include "hip/hip_runtime_api.h"

namespace cpu {

// These check parameters as the API does and take them by value. On failure *out is untouched. `now` is what the node
// does until then, if it exists already.
hipError_t make_action(const hipKernelNodeParams *params, Action *out, const Action *now = nullptr);
hipError_t make_action(const hipMemcpy3DParms *params, Action *out);
hipError_t make_action(const HIP_MEMCPY3D *params, Action *out);
hipError_t make_action(const hipMemsetParams *params, Action *out);
hipError_t make_action(const hipHostNodeParams *params, Action *out);
// Makes a clone of the graph. hipErrorNotSupported: it allocates or frees memory.
hipError_t make_child_action(hipGraph_t child, Action *out);
hipError_t make_event_action(hipGraphNodeType type, hipEvent_t event, Action *out);
hipError_t make_copy_action(void *dst, const void *src, size_t size, hipMemcpyKind kind, Action *out);
// Lets what a node does next keep what was said of its kernel's blocks: that they are there all at once.
void stay_cooperative(const Action &now, Action *next);
// Says it, or the contrary, of a kernel node. hipErrorCooperativeLaunchTooLarge: the device has no room for them all.
hipError_t set_cooperative(Node &node, bool is_cooperative);
// Makes an action of any kind. The address of an allocation is written into the parameters.
hipError_t make_action(hipGraphNodeParams *params, Action *out);

// Returns the action of work that was captured instead of run. Works of events go through make_event_action.
Action captured_action(std::shared_ptr<Work> work);

// These return parameters as the Get calls show them, for a node of that type.
hipKernelNodeParams kernel_params(Node &node);
HIP_MEMCPY3D driver_copy_params(const Node &node);
hipMemsetParams fill_params(const Node &node);
void give_fill_params(const Node &node, hipMemsetParams *out);
hipHostNodeParams host_params(const Node &node);

// Returns whether a node of a graph, and an update, do not take a fill of several rows (fill_shape_reject).
bool refuses_rows(const Action &next);
// Returns whether an executable node may go from one action to another, in hipGraphExecUpdate's terms.
hipGraphExecUpdateResult compare_actions(const Action &now, const Action &next);

}  // namespace cpu
