#include "graph/node.h"

#include <algorithm>
#include <cstring>

#include "enumerator.h"
#include "graph/graph_memory.h"
#include "quirks/quirks.h"
#include "runtime/copy.h"
#include "runtime/event.h"
#include "runtime/fill.h"
#include "runtime/host_function.h"
#include "runtime/launch.h"
#include "runtime/memory.h"

namespace cpu {
namespace {

constexpr int kHost = -1;

// Returns the device whose memory an address is in, or kHost. The node keeps it, because the memory may be gone when
// nodes are compared.
int place_of(const void *address) {
  const auto allocation = find_allocation(address);
  if (!allocation) return kHost;
  const bool host = allocation->kind == MemoryKind::Host || allocation->kind == MemoryKind::Registered;
  return host ? kHost : allocation->device;
}

template <class T>
const T &work_of(const Node &node) {
  return static_cast<const T &>(*node.action.work);
}

// hipMemsetParams as HIP 7.0's changelog describes it; the headers contradict it.
struct ChangelogMemset {
  void *dst;
  size_t pitch;
  unsigned value;
  unsigned element_size;
  size_t width;
  size_t height;
};

hipMemsetParams from_application(const hipMemsetParams *given) {
  if (!quirk(Quirk::MemsetLayout)) return *given;
  ChangelogMemset from;
  std::memcpy(&from, given, sizeof from);
  hipMemsetParams params{};
  params.dst = from.dst;
  params.elementSize = from.element_size;
  params.height = from.height;
  params.pitch = from.pitch;
  params.value = from.value;
  params.width = from.width;
  return params;
}

Action copy_action(std::shared_ptr<CopyWork> work, const hipMemcpy3DParms &params, Flavour flavour) {
  Action action;
  action.type = hipGraphNodeTypeMemcpy;
  action.flavour = flavour;
  action.copy = params;
  action.source = place_of(work->src.base);
  action.target = place_of(work->dst.base);
  action.work = std::move(work);
  return action;
}

Action fill_action(std::shared_ptr<FillWork> work) {
  Action action;
  action.type = hipGraphNodeTypeMemset;
  action.target = place_of(work->dst.base);
  action.work = std::move(work);
  return action;
}

hipPitchedPtr pitched(const Box &box, const CopyWork &work) {
  const size_t rows = box.pitch ? box.slice / box.pitch : 0;
  return make_hipPitchedPtr(box.base, box.pitch ? box.pitch : work.width, work.width, std::max(rows, work.height));
}

hipMemcpy3DParms describe(const CopyWork &work) {
  hipMemcpy3DParms params{};
  params.srcPtr = pitched(work.src, work);
  params.dstPtr = pitched(work.dst, work);
  params.extent = make_hipExtent(work.width, work.height, work.depth);
  params.kind = work.kind;
  return params;
}

// Returns the runtime's form of a copy's parameters. The driver's form keeps host and device pointers in fields of
// their own.
hipMemcpy3DParms runtime_form(const HIP_MEMCPY3D &from) {
  const bool host_source = from.srcMemoryType == hipMemoryTypeHost;
  const bool host_target = from.dstMemoryType == hipMemoryTypeHost;
  void *source = host_source ? const_cast<void *>(from.srcHost) : from.srcDevice;
  void *target = host_target ? from.dstHost : from.dstDevice;
  hipMemcpy3DParms to{};
  to.srcPos = make_hipPos(from.srcXInBytes, from.srcY, from.srcZ);
  to.dstPos = make_hipPos(from.dstXInBytes, from.dstY, from.dstZ);
  to.srcPtr = make_hipPitchedPtr(source, from.srcPitch, from.WidthInBytes, from.srcHeight);
  to.dstPtr = make_hipPitchedPtr(target, from.dstPitch, from.WidthInBytes, from.dstHeight);
  if (from.srcMemoryType == hipMemoryTypeArray) to.srcArray = from.srcArray, to.srcPtr = {};
  if (from.dstMemoryType == hipMemoryTypeArray) to.dstArray = from.dstArray, to.dstPtr = {};
  to.extent = make_hipExtent(from.WidthInBytes, from.Height, from.Depth);
  to.kind = static_cast<hipMemcpyKind>((host_source ? 0 : 2) + (host_target ? 0 : 1));
  return to;
}

// Returns whether a copy between pageable memory and memory that the device knows is named another kind
// (GraphMemcpyNode1D::ValidateParams, hip_graph_internal.cpp:72 of ROCm/clr @f9f995c6d).
bool contradicts(hipMemcpyKind kind, const void *dst, const void *src) {
  if (kind == hipMemcpyDefault || is_pageable(dst) == is_pageable(src)) return false;
  return kind != (is_pageable(src) ? hipMemcpyHostToDevice : hipMemcpyDeviceToHost);
}

bool any_zero(const dim3 &d) { return d.x == 0 || d.y == 0 || d.z == 0; }

bool is_2d(const FillWork &work) { return work.height > 1 || work.depth > 1; }

bool same_shape(const FillWork &a, const FillWork &b) {
  return a.width == b.width && a.height == b.height && a.depth == b.depth && a.element_size == b.element_size &&
         a.dst.pitch == b.dst.pitch;
}

hipGraphExecUpdateResult compare_fills(const Action &now, const Action &next) {
  const auto &a = static_cast<const FillWork &>(*now.work);
  const auto &b = static_cast<const FillWork &>(*next.work);
  const bool fits = same_shape(a, b) || (!is_2d(a) && !is_2d(b));
  return fits && now.target == next.target ? hipGraphExecUpdateSuccess : hipGraphExecUpdateErrorParametersChanged;
}

hipGraphExecUpdateResult compare_kernels(const Action &now, const Action &next) {
  const auto &a = static_cast<const KernelWork &>(*now.work);
  const auto &b = static_cast<const KernelWork &>(*next.work);
  return a.function.device == b.function.device ? hipGraphExecUpdateSuccess
                                                : hipGraphExecUpdateErrorUnsupportedFunctionChange;
}

}  // namespace

hipError_t make_action(const hipKernelNodeParams *params, Action *out, const Action *now) {
  if (!params || !params->func) return hipErrorInvalidValue;
  // Up to 5.4 HIP takes only a host symbol for a function (ROCm/hip#2450).
  if (quirk(Quirk::FuncReject)) return hipErrorInvalidDeviceFunction;
  if (any_zero(params->gridDim)) return hipErrorInvalidValue;
  if (any_zero(params->blockDim)) return hipErrorInvalidConfiguration;
  const Geometry geometry{params->gridDim, params->blockDim, params->sharedMemBytes};
  // CLR checks the limits of the function that the node has, not of the one it gets (hip_graph_internal.hpp:1282-1309).
  const bool is_old = now && quirk(Quirk::SetparamsValidateOldFunc);
  const Kernel *limits = is_old ? static_cast<const KernelWork &>(*now->work).function.kernel : nullptr;
  std::shared_ptr<KernelWork> work;
  const hipError_t error = make_launch(params->func, geometry, params->kernelParams, params->extra, &work, limits);
  if (error) return error;
  // In CLR the thread's device decides which functions there are.
  if (quirk(Quirk::DeviceBinding) && work->function.device != current_device()) return hipErrorInvalidDeviceFunction;
  if (quirk(Quirk::ParamsByPointer)) work->refer_to(params->kernelParams);
  Action action;
  action.type = hipGraphNodeTypeKernel;
  action.work = std::move(work);
  *out = std::move(action);
  return hipSuccess;
}

void stay_cooperative(const Action &now, Action *next) {
  if (now.type != hipGraphNodeTypeKernel || next->type != hipGraphNodeTypeKernel) return;
  static_cast<KernelWork &>(*next->work).is_cooperative = static_cast<const KernelWork &>(*now.work).is_cooperative;
}

hipError_t set_cooperative(Node &node, bool is_cooperative) {
  auto &work = static_cast<KernelWork &>(*node.action.work);
  if (is_cooperative && !work.fits_at_once()) return hipErrorCooperativeLaunchTooLarge;
  work.is_cooperative = is_cooperative;
  return hipSuccess;
}

hipError_t make_action(const hipMemcpy3DParms *params, Action *out) {
  if (!params) return hipErrorInvalidValue;
  std::shared_ptr<CopyWork> work;
  if (const hipError_t error = make_copy(*params, &work)) return error;
  *out = copy_action(std::move(work), *params, Flavour::Box);
  return hipSuccess;
}

hipError_t make_action(const HIP_MEMCPY3D *params, Action *out) {
  if (!params) return hipErrorInvalidValue;
  std::shared_ptr<CopyWork> work;
  if (const hipError_t error = make_copy(*params, &work)) return error;
  *out = copy_action(std::move(work), runtime_form(*params), Flavour::Driver);
  return hipSuccess;
}

hipError_t make_copy_action(void *dst, const void *src, size_t size, hipMemcpyKind kind, Action *out) {
  if (!dst || !src || size == 0) return hipErrorInvalidValue;
  std::shared_ptr<CopyWork> work;
  if (const hipError_t error = make_copy(dst, src, size, kind, &work)) return error;
  if (contradicts(kind, dst, src)) return hipErrorInvalidValue;
  const hipMemcpy3DParms params = describe(*work);
  *out = copy_action(std::move(work), params, Flavour::Flat);
  return hipSuccess;
}

hipError_t make_action(const hipMemsetParams *params, Action *out) {
  if (!params) return hipErrorInvalidValue;
  const hipMemsetParams given = from_application(params);
  const Box box{static_cast<std::byte *>(given.dst), given.pitch, 0};
  if (given.width == 0 || given.height == 0 || is_too_wide(box, given.height)) return hipErrorInvalidValue;
  if (quirk(Quirk::FillShapeReject) && given.height > 1 && has_fewer_rows(box, given.height)) return hipErrorInvalidValue;
  std::shared_ptr<FillWork> work;
  if (const hipError_t error = make_fill(given, &work)) return error;
  *out = fill_action(std::move(work));
  return hipSuccess;
}

hipError_t make_action(const hipHostNodeParams *params, Action *out) {
  if (!params || !params->fn) return hipErrorInvalidValue;
  Action action;
  action.type = hipGraphNodeTypeHost;
  action.work = std::make_shared<HostWork>(params->fn, params->userData);
  *out = std::move(action);
  return hipSuccess;
}

hipError_t make_child_action(hipGraph_t child, Action *out) {
  const Graph *graph = find_graph(child);
  if (!graph) return hipErrorInvalidValue;
  if (graph->has_memory_nodes()) return hipErrorNotSupported;
  Action action;
  action.type = hipGraphNodeTypeGraph;
  action.child = copy_graph(*graph);
  *out = std::move(action);
  return hipSuccess;
}

hipError_t make_event_action(hipGraphNodeType type, hipEvent_t event, Action *out) {
  std::shared_ptr<Event> found = find_event(event);
  if (!found) return hipErrorInvalidValue;
  Action action;
  action.type = type;
  action.event = event;
  if (type == hipGraphNodeTypeEventRecord) action.work = std::make_shared<EventRecordWork>(std::move(found));
  else action.work = std::make_shared<EventWaitWork>(std::move(found));
  *out = std::move(action);
  return hipSuccess;
}

hipError_t make_action(hipGraphNodeParams *params, Action *out) {
  if (!params) return hipErrorInvalidValue;
  switch (number_of(params->type)) {
    case hipGraphNodeTypeKernel: return make_action(&params->kernel, out);
    case hipGraphNodeTypeMemcpy:
      return params->memcpy.flags == 0 ? make_action(&params->memcpy.copyParams, out) : hipErrorInvalidValue;
    case hipGraphNodeTypeMemset: return make_action(&params->memset, out);
    case hipGraphNodeTypeHost: return make_action(&params->host, out);
    case hipGraphNodeTypeGraph: return make_child_action(params->graph.graph, out);
    case hipGraphNodeTypeEmpty: *out = Action(); return hipSuccess;
    case hipGraphNodeTypeWaitEvent: return make_event_action(params->type, params->eventWait.event, out);
    case hipGraphNodeTypeEventRecord: return make_event_action(params->type, params->eventRecord.event, out);
    case hipGraphNodeTypeMemAlloc: return make_alloc_action(&params->alloc, out);
    case hipGraphNodeTypeMemFree: return make_free_action(params->free.dptr, out);
    case hipGraphNodeTypeExtSemaphoreSignal:
    case hipGraphNodeTypeExtSemaphoreWait:
    case hipGraphNodeTypeBatchMemOp: return hipErrorNotSupported;
    default: return hipErrorInvalidValue;
  }
}

Action captured_action(std::shared_ptr<Work> work) {
  if (work->type == hipGraphNodeTypeMemcpy) {
    auto copy = std::static_pointer_cast<CopyWork>(std::move(work));
    const hipMemcpy3DParms params = describe(*copy);
    return copy_action(std::move(copy), params, Flavour::Flat);
  }
  if (work->type == hipGraphNodeTypeMemset) return fill_action(std::static_pointer_cast<FillWork>(std::move(work)));
  Action action;
  action.type = work->type;
  action.work = std::move(work);
  return action;
}

hipKernelNodeParams kernel_params(Node &node) {
  auto &work = static_cast<KernelWork &>(*node.action.work);
  hipKernelNodeParams params{};
  node.arguments.clear();
  // CLR keeps arguments as they were given (GraphKernelNode::copyParams, hip_graph_internal.hpp:1108-1176).
  const bool as_extra = work.packed && quirk(Quirk::GetparamsExtra);
  if (as_extra) {
    node.arguments = {HIP_LAUNCH_PARAM_BUFFER_POINTER, work.arguments(), HIP_LAUNCH_PARAM_BUFFER_SIZE, &work.packed,
                      HIP_LAUNCH_PARAM_END};
    params.extra = node.arguments.data();
  } else {
    for (size_t i = 0; i < work.function.kernel->params.size(); ++i) node.arguments.push_back(work.argument(i));
    params.kernelParams = node.arguments.empty() ? nullptr : node.arguments.data();
  }
  params.func = const_cast<void *>(work.function.handle);
  params.gridDim = work.geometry.grid;
  params.blockDim = work.geometry.block;
  params.sharedMemBytes = work.geometry.shared;
  return params;
}

HIP_MEMCPY3D driver_copy_params(const Node &node) {
  const hipMemcpy3DParms &from = node.action.copy;
  HIP_MEMCPY3D to{};
  to.srcXInBytes = from.srcPos.x;
  to.srcY = from.srcPos.y;
  to.srcZ = from.srcPos.z;
  to.srcMemoryType = node.action.source == kHost ? hipMemoryTypeHost : hipMemoryTypeDevice;
  if (node.action.source == kHost) to.srcHost = from.srcPtr.ptr;
  else to.srcDevice = from.srcPtr.ptr;
  to.srcPitch = from.srcPtr.pitch;
  to.srcHeight = from.srcPtr.ysize;
  to.dstXInBytes = from.dstPos.x;
  to.dstY = from.dstPos.y;
  to.dstZ = from.dstPos.z;
  to.dstMemoryType = node.action.target == kHost ? hipMemoryTypeHost : hipMemoryTypeDevice;
  if (node.action.target == kHost) to.dstHost = from.dstPtr.ptr;
  else to.dstDevice = from.dstPtr.ptr;
  to.dstPitch = from.dstPtr.pitch;
  to.dstHeight = from.dstPtr.ysize;
  to.WidthInBytes = from.extent.width;
  to.Height = from.extent.height;
  to.Depth = from.extent.depth;
  if (from.srcArray) to.srcMemoryType = hipMemoryTypeArray, to.srcArray = from.srcArray;
  if (from.dstArray) to.dstMemoryType = hipMemoryTypeArray, to.dstArray = from.dstArray;
  return to;
}

hipMemsetParams fill_params(const Node &node) {
  const auto &work = work_of<FillWork>(node);
  hipMemsetParams params{};
  params.dst = work.dst.base;
  params.elementSize = work.element_size;
  params.width = work.width;
  params.height = work.height * work.depth;
  params.pitch = work.dst.pitch;
  params.value = work.value;
  return params;
}

void give_fill_params(const Node &node, hipMemsetParams *out) {
  const hipMemsetParams params = fill_params(node);
  if (quirk(Quirk::MemsetLayout)) {
    const ChangelogMemset given{params.dst,         params.pitch, params.value,
                                params.elementSize, params.width, params.height};
    std::memcpy(static_cast<void *>(out), &given, sizeof given);
  } else {
    *out = params;
  }
}

hipHostNodeParams host_params(const Node &node) {
  const auto &work = work_of<HostWork>(node);
  return {work.fn, work.data};
}

bool refuses_rows(const Action &next) {
  if (!quirk(Quirk::FillShapeReject) || next.type != hipGraphNodeTypeMemset) return false;
  const auto &work = static_cast<const FillWork &>(*next.work);
  return is_2d(work) && !was_asked_for(work.dst, work.width * work.element_size, work.height);
}

hipGraphExecUpdateResult compare_actions(const Action &now, const Action &next) {
  if (now.type != next.type) return hipGraphExecUpdateErrorNodeTypeChanged;
  switch (now.type) {
    case hipGraphNodeTypeKernel: return compare_kernels(now, next);
    case hipGraphNodeTypeMemset: return compare_fills(now, next);
    case hipGraphNodeTypeMemcpy:
      return now.source == next.source && now.target == next.target ? hipGraphExecUpdateSuccess
                                                                    : hipGraphExecUpdateErrorParametersChanged;
    case hipGraphNodeTypeMemAlloc:
    case hipGraphNodeTypeMemFree: return hipGraphExecUpdateErrorNotSupported;
    default: return hipGraphExecUpdateSuccess;
  }
}

}  // namespace cpu
