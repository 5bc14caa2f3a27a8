/* The null provider: a HIP library whose calls return success at once and do nothing.
 *
 * It serves to measure what hiprt itself costs on the host (`hiprt bench graph --provider null`). Memory is a range of
 * addresses that nobody touches, so what is read back is undefined. Only functions that hiprt calls are here. */
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "hip/hip_runtime_api.h"
#include "hip/hiprtc.h"

static atomic_ullong next_address = 1ull << 40;
static atomic_ullong next_handle = 0x1000;

static void *new_handle(void) { return (void *)(uintptr_t)atomic_fetch_add(&next_handle, 16); }

hipError_t hipRuntimeGetVersion(int *version) {
  *version = HIP_VERSION;
  return hipSuccess;
}
hipError_t hipGetDeviceCount(int *count) {
  *count = 1;
  return hipSuccess;
}
hipError_t hipGetDevice(int *device) {
  *device = 0;
  return hipSuccess;
}
hipError_t hipSetDevice(int device) { return device ? hipErrorInvalidDevice : hipSuccess; }
hipError_t hipDeviceSynchronize(void) { return hipSuccess; }
hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_tR0600 *properties, int device) {
  if (device) return hipErrorInvalidDevice;
  memset(properties, 0, sizeof *properties);
  strcpy(properties->name, "null");
  strcpy(properties->gcnArchName, "hiprt-null");
  properties->warpSize = 32;
  properties->multiProcessorCount = 1;
  properties->totalGlobalMem = 1ull << 36;
  return hipSuccess;
}

hipError_t hipMalloc(void **pointer, size_t size) {
  *pointer = (void *)(uintptr_t)atomic_fetch_add(&next_address, (size + 511) / 512 * 512);
  return hipSuccess;
}
hipError_t hipHostMalloc(void **pointer, size_t size, unsigned int flags) {
  (void)flags;
  *pointer = malloc(size);
  return *pointer ? hipSuccess : hipErrorOutOfMemory;
}
hipError_t hipHostFree(void *pointer) {
  free(pointer);
  return hipSuccess;
}
hipError_t hipFree(void *pointer) { return (void)pointer, hipSuccess; }
hipError_t hipMemcpyAsync(void *dst, const void *src, size_t size, hipMemcpyKind kind, hipStream_t stream) {
  return (void)dst, (void)src, (void)size, (void)kind, (void)stream, hipSuccess;
}
hipError_t hipMemsetD8Async(hipDeviceptr_t dst, unsigned char value, size_t count, hipStream_t stream) {
  return (void)dst, (void)value, (void)count, (void)stream, hipSuccess;
}
hipError_t hipMemsetD16Async(hipDeviceptr_t dst, unsigned short value, size_t count, hipStream_t stream) {
  return (void)dst, (void)value, (void)count, (void)stream, hipSuccess;
}
hipError_t hipMemsetD32Async(hipDeviceptr_t dst, int value, size_t count, hipStream_t stream) {
  return (void)dst, (void)value, (void)count, (void)stream, hipSuccess;
}

hipError_t hipStreamCreateWithFlags(hipStream_t *stream, unsigned int flags) {
  (void)flags;
  *stream = new_handle();
  return hipSuccess;
}
hipError_t hipStreamDestroy(hipStream_t stream) { return (void)stream, hipSuccess; }
hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags) {
  return (void)stream, (void)event, (void)flags, hipSuccess;
}
hipError_t hipStreamSynchronize(hipStream_t stream) { return (void)stream, hipSuccess; }
hipError_t hipEventCreateWithFlags(hipEvent_t *event, unsigned flags) {
  (void)flags;
  *event = new_handle();
  return hipSuccess;
}
hipError_t hipEventDestroy(hipEvent_t event) { return (void)event, hipSuccess; }
hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) { return (void)event, (void)stream, hipSuccess; }
hipError_t hipEventQuery(hipEvent_t event) { return (void)event, hipSuccess; }
hipError_t hipEventSynchronize(hipEvent_t event) { return (void)event, hipSuccess; }

/* Nobody captures: no work is ever there to be taken in. */
hipError_t hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus *status) {
  (void)stream;
  *status = hipStreamCaptureStatusNone;
  return hipSuccess;
}
hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode) {
  return (void)stream, (void)mode, hipSuccess;
}
hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t *graph) {
  (void)stream;
  *graph = new_handle();
  return hipSuccess;
}
hipError_t hipStreamGetCaptureInfo_v2(hipStream_t stream, hipStreamCaptureStatus *status, unsigned long long *id,
                                      hipGraph_t *graph, const hipGraphNode_t **nodes, size_t *count) {
  (void)stream, (void)id, (void)nodes;
  *status = hipStreamCaptureStatusActive;
  if (graph) *graph = 0;
  if (count) *count = 0;
  return hipSuccess;
}
hipError_t hipStreamUpdateCaptureDependencies(hipStream_t stream, hipGraphNode_t *nodes, size_t count, unsigned flags) {
  return (void)stream, (void)nodes, (void)count, (void)flags, hipSuccess;
}
hipError_t hipGraphClone(hipGraph_t *clone, hipGraph_t graph) { return *clone = graph, hipSuccess; }
hipError_t hipGraphGetNodes(hipGraph_t graph, hipGraphNode_t *nodes, size_t *count) {
  (void)graph, (void)nodes;
  *count = 0;
  return hipSuccess;
}
hipError_t hipGraphGetEdges(hipGraph_t graph, hipGraphNode_t *from, hipGraphNode_t *to, size_t *count) {
  (void)graph, (void)from, (void)to;
  *count = 0;
  return hipSuccess;
}

hipError_t hipModuleLoadData(hipModule_t *module, const void *image) {
  (void)image;
  *module = new_handle();
  return hipSuccess;
}
hipError_t hipModuleUnload(hipModule_t module) { return (void)module, hipSuccess; }
hipError_t hipModuleGetFunction(hipFunction_t *function, hipModule_t module, const char *name) {
  (void)module, (void)name;
  *function = new_handle();
  return hipSuccess;
}
hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                 unsigned bz, unsigned shared, hipStream_t stream, void **params, void **extra) {
  (void)function, (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz;
  return (void)shared, (void)stream, (void)params, (void)extra, hipSuccess;
}

hipError_t hipGraphCreate(hipGraph_t *graph, unsigned flags) {
  (void)flags;
  *graph = new_handle();
  return hipSuccess;
}
hipError_t hipGraphDestroy(hipGraph_t graph) { return (void)graph, hipSuccess; }
hipError_t hipGraphAddKernelNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *deps, size_t n,
                                 const hipKernelNodeParams *params) {
  (void)graph, (void)deps, (void)n, (void)params;
  *node = new_handle();
  return hipSuccess;
}
hipError_t hipGraphAddMemcpyNode1D(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *deps, size_t n, void *dst,
                                   const void *src, size_t size, hipMemcpyKind kind) {
  (void)graph, (void)deps, (void)n, (void)dst, (void)src, (void)size, (void)kind;
  *node = new_handle();
  return hipSuccess;
}
hipError_t hipGraphAddMemsetNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *deps, size_t n,
                                 const hipMemsetParams *params) {
  (void)graph, (void)deps, (void)n, (void)params;
  *node = new_handle();
  return hipSuccess;
}
hipError_t hipGraphAddEmptyNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *deps, size_t n) {
  (void)graph, (void)deps, (void)n;
  *node = new_handle();
  return hipSuccess;
}
hipError_t hipGraphInstantiate(hipGraphExec_t *exec, hipGraph_t graph, hipGraphNode_t *node, char *log, size_t size) {
  (void)graph, (void)node, (void)log, (void)size;
  *exec = new_handle();
  return hipSuccess;
}
hipError_t hipGraphKernelNodeSetParams(hipGraphNode_t node, const hipKernelNodeParams *params) {
  return (void)node, (void)params, hipSuccess;
}
hipError_t hipGraphMemcpyNodeSetParams1D(hipGraphNode_t node, void *dst, const void *src, size_t size, hipMemcpyKind kind) {
  return (void)node, (void)dst, (void)src, (void)size, (void)kind, hipSuccess;
}
hipError_t hipGraphMemsetNodeSetParams(hipGraphNode_t node, const hipMemsetParams *params) {
  return (void)node, (void)params, hipSuccess;
}
hipError_t hipGraphExecKernelNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node, const hipKernelNodeParams *params) {
  return (void)exec, (void)node, (void)params, hipSuccess;
}
hipError_t hipGraphExecMemcpyNodeSetParams1D(hipGraphExec_t exec, hipGraphNode_t node, void *dst, const void *src,
                                             size_t size, hipMemcpyKind kind) {
  return (void)exec, (void)node, (void)dst, (void)src, (void)size, (void)kind, hipSuccess;
}
hipError_t hipGraphExecMemsetNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node, const hipMemsetParams *params) {
  return (void)exec, (void)node, (void)params, hipSuccess;
}
hipError_t hipGraphExecUpdate(hipGraphExec_t exec, hipGraph_t graph, hipGraphNode_t *node,
                              hipGraphExecUpdateResult *result) {
  (void)exec, (void)graph, (void)node;
  *result = hipGraphExecUpdateSuccess;
  return hipSuccess;
}
hipError_t hipGraphLaunch(hipGraphExec_t exec, hipStream_t stream) { return (void)exec, (void)stream, hipSuccess; }
hipError_t hipGraphExecDestroy(hipGraphExec_t exec) { return (void)exec, hipSuccess; }

hiprtcResult hiprtcCreateProgram(hiprtcProgram *program, const char *source, const char *name, int count,
                                 const char *const *headers, const char *const *names) {
  (void)source, (void)name, (void)count, (void)headers, (void)names;
  *program = new_handle();
  return HIPRTC_SUCCESS;
}
hiprtcResult hiprtcDestroyProgram(hiprtcProgram *program) { return (void)program, HIPRTC_SUCCESS; }
hiprtcResult hiprtcAddNameExpression(hiprtcProgram program, const char *name) {
  return (void)program, (void)name, HIPRTC_SUCCESS;
}
hiprtcResult hiprtcCompileProgram(hiprtcProgram program, int count, const char *const *options) {
  return (void)program, (void)count, (void)options, HIPRTC_SUCCESS;
}
hiprtcResult hiprtcGetCodeSize(hiprtcProgram program, size_t *size) {
  (void)program;
  *size = 4;
  return HIPRTC_SUCCESS;
}
hiprtcResult hiprtcGetCode(hiprtcProgram program, char *code) {
  (void)program;
  memcpy(code, "null", 4);
  return HIPRTC_SUCCESS;
}
hiprtcResult hiprtcGetLoweredName(hiprtcProgram program, const char *name, const char **lowered) {
  (void)program;
  *lowered = name;
  return HIPRTC_SUCCESS;
}
