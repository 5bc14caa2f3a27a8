/* Stream capture, and what the nodes of a captured graph say of themselves. */
#include <stdlib.h>
#include <string.h>

#include "cuda_driver.h"
#include "hip/hiprt_graph_api.h"

#define NV_NEED(field)                                                                                                 \
  NV_ENTER();                                                                                                          \
  if (!nv.field) return nv_done(hipErrorNotSupported)

hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode) {
  NV_ENTER();
  return nv_done(nv.StreamBeginCapture(stream, (int)mode));
}

hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t *graph) {
  NV_ENTER();
  return nv_done(nv.StreamEndCapture(stream, (void **)graph));
}

hipError_t hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus *status) {
  NV_ENTER();
  int now = 0;
  hipError_t result = nv_done(nv.StreamIsCapturing(stream, &now));
  *status = (hipStreamCaptureStatus)now;
  return result;
}

hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode *mode) {
  NV_ENTER();
  int now = (int)*mode;
  hipError_t result = nv_done(nv.ThreadExchangeStreamCaptureMode(&now));
  *mode = (hipStreamCaptureMode)now;
  return result;
}

hipError_t hipStreamGetCaptureInfo_v2(hipStream_t stream, hipStreamCaptureStatus *status, unsigned long long *id,
                                      hipGraph_t *graph, const hipGraphNode_t **nodes, size_t *count) {
  NV_NEED(StreamGetCaptureInfo);
  int now = 0;
  hipError_t result =
      nv_done(nv.StreamGetCaptureInfo(stream, &now, id, (void **)graph, (void *const **)nodes, count));
  *status = (hipStreamCaptureStatus)now;
  return result;
}

hipError_t hipStreamUpdateCaptureDependencies(hipStream_t stream, hipGraphNode_t *nodes, size_t count, unsigned flags) {
  NV_NEED(StreamUpdateCaptureDependencies);
  return nv_done(nv.StreamUpdateCaptureDependencies(stream, (void **)nodes, count, flags));
}

hipError_t hipGraphClone(hipGraph_t *clone, hipGraph_t graph) {
  NV_NEED(GraphClone);
  return nv_done(nv.GraphClone((void **)clone, graph));
}

hipError_t hipGraphGetNodes(hipGraph_t graph, hipGraphNode_t *nodes, size_t *count) {
  NV_NEED(GraphGetNodes);
  return nv_done(nv.GraphGetNodes(graph, (void **)nodes, count));
}

/* Edges of programmatic launches have data, which the driver returns with its second version of the call only. */
hipError_t hiprtGraphGetEdgesWithOverlap(hipGraph_t graph, hipGraphNode_t *from, hipGraphNode_t *to, unsigned char *overlaps,
                                         size_t *count) {
  NV_NEED(GraphGetEdges);
  if (overlaps && from) memset(overlaps, 0, *count);
  if (!nv.GraphGetEdgesWithData || !from)
    return nv_done(nv.GraphGetEdges(graph, (void **)from, (void **)to, count));
  CUgraphEdgeData *data = calloc(*count + 1, sizeof *data);
  if (!data) return nv_done(hipErrorOutOfMemory);
  hipError_t result = nv_done(nv.GraphGetEdgesWithData(graph, (void **)from, (void **)to, data, count));
  for (size_t k = 0; !result && overlaps && k < *count; k++)
    overlaps[k] = data[k].type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC &&
                  data[k].from_port == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
  free(data);
  return result;
}

/* Without the data, edges of programmatic launches count as full ones: a kernel that waits by itself waits for nothing then. */
hipError_t hipGraphGetEdges(hipGraph_t graph, hipGraphNode_t *from, hipGraphNode_t *to, size_t *count) {
  return hiprtGraphGetEdgesWithOverlap(graph, from, to, 0, count);
}

/* The driver's types up to WaitEvent and EventRecord have HIP's numbers; its others stand for what no node can be. */
hipError_t hipGraphNodeGetType(hipGraphNode_t node, hipGraphNodeType *type) {
  NV_NEED(GraphNodeGetType);
  int now = 0;
  hipError_t result = nv_done(nv.GraphNodeGetType(node, &now));
  *type = (hipGraphNodeType)now;
  return result;
}

hipError_t hipGraphAddChildGraphNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *deps, size_t n,
                                     hipGraph_t child) {
  NV_NEED(GraphAddChildGraphNode);
  return nv_done(nv.GraphAddChildGraphNode((void **)node, graph, (void *const *)deps, n, child));
}

hipError_t hipGraphChildGraphNodeGetGraph(hipGraphNode_t node, hipGraph_t *graph) {
  NV_NEED(GraphChildGraphNodeGetGraph);
  return nv_done(nv.GraphChildGraphNodeGetGraph(node, (void **)graph));
}

hipError_t hipGraphKernelNodeGetParams(hipGraphNode_t node, hipKernelNodeParams *params) {
  NV_NEED(GraphKernelNodeGetParams);
  CUDA_KERNEL_NODE_PARAMS_v2 p = {0};
  hipError_t result = nv_done(nv.GraphKernelNodeGetParams(node, &p));
  if (!result && !p.launch.func && p.kern && nv.KernelGetFunction)
    result = nv_done(nv.KernelGetFunction(&p.launch.func, p.kern));
  if (result) return result;
  params->func = p.launch.func;
  params->gridDim = (dim3){p.launch.gridDimX, p.launch.gridDimY, p.launch.gridDimZ};
  params->blockDim = (dim3){p.launch.blockDimX, p.launch.blockDimY, p.launch.blockDimZ};
  params->sharedMemBytes = p.launch.sharedMemBytes;
  params->kernelParams = p.launch.kernelParams;
  params->extra = p.launch.extra;
  return hipSuccess;
}

/* HIP's attributes have the driver's numbers and layouts. */
hipError_t hipGraphKernelNodeGetAttribute(hipGraphNode_t node, hipLaunchAttributeID id, hipLaunchAttributeValue *value) {
  NV_NEED(GraphKernelNodeGetAttribute);
  return nv_done(nv.GraphKernelNodeGetAttribute(node, (int)id, value));
}

hipError_t hipGraphKernelNodeSetAttribute(hipGraphNode_t node, hipLaunchAttributeID id, const hipLaunchAttributeValue *value) {
  NV_NEED(GraphKernelNodeSetAttribute);
  return nv_done(nv.GraphKernelNodeSetAttribute(node, (int)id, value));
}

hipError_t hipGraphKernelNodeCopyAttributes(hipGraphNode_t source, hipGraphNode_t target) {
  NV_NEED(GraphKernelNodeCopyAttributes);
  return nv_done(nv.GraphKernelNodeCopyAttributes(target, source));
}

static int is_device_memory(const CUDA_MEMCPY3D_v2 *p, int is_source) {
  unsigned type = is_source ? p->srcMemoryType : p->dstMemoryType;
  CUdeviceptr address = is_source ? p->srcDevice : p->dstDevice;
  if (type == CU_MEMORYTYPE_UNIFIED &&
      (!nv.PointerGetAttribute || nv.PointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address)))
    return 0;
  return type == CU_MEMORYTYPE_DEVICE;
}

hipError_t hipGraphMemcpyNodeGetParams(hipGraphNode_t node, hipMemcpy3DParms *params) {
  NV_NEED(GraphMemcpyNodeGetParams);
  CUDA_MEMCPY3D_v2 p = {0};
  hipError_t result = nv_done(nv.GraphMemcpyNodeGetParams(node, &p));
  if (result) return result;
  *params = (hipMemcpy3DParms){0};
  params->srcArray = (hipArray_t)p.srcArray;
  params->dstArray = (hipArray_t)p.dstArray;
  params->srcPos = (struct hipPos){p.srcXInBytes, p.srcY, p.srcZ};
  params->dstPos = (struct hipPos){p.dstXInBytes, p.dstY, p.dstZ};
  params->srcPtr = (struct hipPitchedPtr){(void *)(uintptr_t)p.srcDevice, p.srcPitch, p.WidthInBytes, p.srcHeight};
  params->dstPtr = (struct hipPitchedPtr){(void *)(uintptr_t)p.dstDevice, p.dstPitch, p.WidthInBytes, p.dstHeight};
  params->extent = (struct hipExtent){p.WidthInBytes, p.Height, p.Depth};
  params->kind = is_device_memory(&p, 1) && is_device_memory(&p, 0) ? hipMemcpyDeviceToDevice : hipMemcpyHostToHost;
  return hipSuccess;
}

hipError_t hipGraphMemsetNodeGetParams(hipGraphNode_t node, hipMemsetParams *params) {
  NV_NEED(GraphMemsetNodeGetParams);
  CUDA_MEMSET_NODE_PARAMS_v1 p = {0};
  hipError_t result = nv_done(nv.GraphMemsetNodeGetParams(node, &p));
  *params = (hipMemsetParams){0};
  params->dst = (void *)(uintptr_t)p.dst;
  params->pitch = p.pitch;
  params->value = p.value;
  params->elementSize = p.elementSize;
  params->width = p.width;
  params->height = p.height;
  return result;
}

hipError_t hipKernelGetParamInfo(hipKernel_t kernel, size_t index, size_t *offset, size_t *size) {
  NV_NEED(FuncGetParamInfo);
  return nv_done(nv.FuncGetParamInfo(kernel, index, offset, size));
}

const char *hipKernelNameRef(const hipFunction_t function) {
  const char *name = 0;
  return nv_enter() || !nv.FuncGetName || nv.FuncGetName(&name, function) ? 0 : name;
}
