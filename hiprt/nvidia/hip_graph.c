/* Graphs. The driver has the same calls; the fields of its parameter structures have another order. */
#include "cuda_driver.h"
#include "hip/hiprt_graph_api.h"

static CUDA_KERNEL_NODE_PARAMS_v1 kernel_params(const hipKernelNodeParams *p, void **list) {
  return (CUDA_KERNEL_NODE_PARAMS_v1){p->func,           p->gridDim.x,    p->gridDim.y,
                                      p->gridDim.z,      p->blockDim.x,   p->blockDim.y,
                                      p->blockDim.z,     p->sharedMemBytes, p->kernelParams,
                                      nv_extra(p->extra, list)};
}

/* Where the driver is to tell by an address what memory it is in, memory that was freed is the host's to it. The node then
 * stays a copy of the host's, also if other memory comes to lie at the address, and a launch of it crashes. */
static CUDA_MEMCPY3D_v2 copy_params(void *dst, const void *src, size_t size, hipMemcpyKind kind) {
  CUDA_MEMCPY3D_v2 p = {0};
  p.srcMemoryType = p.dstMemoryType = kind == hipMemcpyDeviceToDevice ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_UNIFIED;
  p.srcDevice = nv_address(src);
  p.dstDevice = nv_address(dst);
  p.WidthInBytes = size;
  p.Height = p.Depth = 1;
  return p;
}

static CUDA_MEMSET_NODE_PARAMS_v1 fill_params(const hipMemsetParams *p) {
  return (CUDA_MEMSET_NODE_PARAMS_v1){nv_address(p->dst), p->pitch, p->value, p->elementSize, p->width, p->height};
}

hipError_t hipGraphCreate(hipGraph_t *graph, unsigned flags) {
  NV_ENTER();
  return nv_done(nv.GraphCreate((void **)graph, flags));
}

hipError_t hipGraphDestroy(hipGraph_t graph) {
  NV_ENTER();
  return nv_done(nv.GraphDestroy(graph));
}

hipError_t hipGraphAddKernelNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *deps, size_t n,
                                 const hipKernelNodeParams *params) {
  NV_ENTER();
  hipError_t status = nv_allow_shared(params->func, params->sharedMemBytes);
  if (status) return status;
  void *list[5];
  CUDA_KERNEL_NODE_PARAMS_v1 p = kernel_params(params, list);
  return nv_done(nv.GraphAddKernelNode((void **)node, graph, (void *const *)deps, n, &p));
}

/* The node's kernel waits for `after` by itself, with griddepcontrol.wait. That is a programmatic edge of the driver,
 * which exists between kernels only. docs.nvidia.com/cuda/cuda-c-programming-guide, "Programmatic Dependent Launch". */
hipError_t hiprtGraphAddKernelNodeOverlapped(hipGraphNode_t *node, hipGraph_t graph, hipGraphNode_t after,
                                             const hipKernelNodeParams *params) {
  static const CUgraphEdgeData edge = {CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC, 0, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC, {0}};
  if (!nv.GraphAddDependencies) return hipGraphAddKernelNode(node, graph, &after, 1, params);
  hipError_t status = hipGraphAddKernelNode(node, graph, 0, 0, params);
  if (status) return status;
  return nv_done(nv.GraphAddDependencies(graph, (void *const *)&after, (void *const *)node, &edge, 1));
}

hipError_t hipGraphAddMemcpyNode1D(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *deps, size_t n, void *dst,
                                   const void *src, size_t size, hipMemcpyKind kind) {
  NV_ENTER();
  CUDA_MEMCPY3D_v2 p = copy_params(dst, src, size, kind);
  return nv_done(nv.GraphAddMemcpyNode((void **)node, graph, (void *const *)deps, n, &p, nv_context()));
}

hipError_t hipGraphAddMemsetNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *deps, size_t n,
                                 const hipMemsetParams *params) {
  NV_ENTER();
  CUDA_MEMSET_NODE_PARAMS_v1 p = fill_params(params);
  return nv_done(nv.GraphAddMemsetNode((void **)node, graph, (void *const *)deps, n, &p, nv_context()));
}

hipError_t hipGraphAddEmptyNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *deps, size_t n) {
  NV_ENTER();
  return nv_done(nv.GraphAddEmptyNode((void **)node, graph, (void *const *)deps, n));
}

hipError_t hipGraphKernelNodeSetParams(hipGraphNode_t node, const hipKernelNodeParams *params) {
  NV_ENTER();
  hipError_t status = nv_allow_shared(params->func, params->sharedMemBytes);
  if (status) return status;
  void *list[5];
  CUDA_KERNEL_NODE_PARAMS_v1 p = kernel_params(params, list);
  return nv_done(nv.GraphKernelNodeSetParams(node, &p));
}

hipError_t hipGraphMemcpyNodeSetParams1D(hipGraphNode_t node, void *dst, const void *src, size_t size, hipMemcpyKind kind) {
  NV_ENTER();
  CUDA_MEMCPY3D_v2 p = copy_params(dst, src, size, kind);
  return nv_done(nv.GraphMemcpyNodeSetParams(node, &p));
}

hipError_t hipGraphMemsetNodeSetParams(hipGraphNode_t node, const hipMemsetParams *params) {
  NV_ENTER();
  CUDA_MEMSET_NODE_PARAMS_v1 p = fill_params(params);
  return nv_done(nv.GraphMemsetNodeSetParams(node, &p));
}

hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t *exec, hipGraph_t graph, unsigned long long flags) {
  NV_ENTER();
  return nv_done(nv.GraphInstantiateWithFlags((void **)exec, graph, flags));
}

hipError_t hipGraphInstantiate(hipGraphExec_t *exec, hipGraph_t graph, hipGraphNode_t *node, char *log, size_t size) {
  if (node) *node = 0;
  if (log && size) *log = 0;
  return hipGraphInstantiateWithFlags(exec, graph, 0);
}

hipError_t hipGraphExecDestroy(hipGraphExec_t exec) {
  NV_ENTER();
  return nv_done(nv.GraphExecDestroy(exec));
}

hipError_t hipGraphExecUpdate(hipGraphExec_t exec, hipGraph_t graph, hipGraphNode_t *node,
                              hipGraphExecUpdateResult *result) {
  NV_ENTER();
  CUgraphExecUpdateResultInfo info = {0};
  hipError_t status = nv_done(nv.GraphExecUpdate(exec, graph, &info));
  if (node) *node = (hipGraphNode_t)info.errorNode;
  /* The driver knows one reason that HIP lacks: changed attributes (8). */
  if (result)
    *result = info.result > hipGraphExecUpdateErrorUnsupportedFunctionChange
                  ? hipGraphExecUpdateErrorParametersChanged
                  : (hipGraphExecUpdateResult)info.result;
  return status;
}

hipError_t hipGraphExecKernelNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node, const hipKernelNodeParams *params) {
  NV_ENTER();
  hipError_t status = nv_allow_shared(params->func, params->sharedMemBytes);
  if (status) return status;
  void *list[5];
  CUDA_KERNEL_NODE_PARAMS_v1 p = kernel_params(params, list);
  return nv_done(nv.GraphExecKernelNodeSetParams(exec, node, &p));
}

hipError_t hipGraphExecMemcpyNodeSetParams1D(hipGraphExec_t exec, hipGraphNode_t node, void *dst, const void *src,
                                             size_t size, hipMemcpyKind kind) {
  NV_ENTER();
  CUDA_MEMCPY3D_v2 p = copy_params(dst, src, size, kind);
  return nv_done(nv.GraphExecMemcpyNodeSetParams(exec, node, &p, nv_context()));
}

hipError_t hipGraphExecMemsetNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node, const hipMemsetParams *params) {
  NV_ENTER();
  CUDA_MEMSET_NODE_PARAMS_v1 p = fill_params(params);
  return nv_done(nv.GraphExecMemsetNodeSetParams(exec, node, &p, nv_context()));
}

hipError_t hipGraphLaunch(hipGraphExec_t exec, hipStream_t stream) {
  NV_ENTER();
  return nv_done(nv.GraphLaunch(exec, stream));
}
