/* The CUDA driver API that this library maps HIP onto: types, the table of functions, the current context.
 *
 * Declarations are ours, after docs.nvidia.com/cuda/cuda-driver-api (CUDA 12 and 13), so that no CUDA installation is
 * needed to build; libcuda is opened at the first call. HIP's handles are the driver's own: a hipStream_t is a CUstream,
 * and so on. Error codes of the driver have HIP's numbers (both follow cudaError). */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "hip/hip_runtime_api.h"

typedef int CUresult;
typedef int CUdevice;
typedef struct CUctx_st *CUcontext;
typedef uint64_t CUdeviceptr;

typedef struct {
  void *func;
  unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
  void **kernelParams, **extra;
} CUDA_KERNEL_NODE_PARAMS_v1;

typedef struct {
  CUDA_KERNEL_NODE_PARAMS_v1 launch;
  void *kern; /* CUkernel, where `func` is NULL */
  CUcontext context;
} CUDA_KERNEL_NODE_PARAMS_v2;

typedef struct {
  CUdeviceptr dst;
  size_t pitch;
  unsigned value, elementSize;
  size_t width, height;
} CUDA_MEMSET_NODE_PARAMS_v1;

typedef struct {
  size_t srcXInBytes, srcY, srcZ, srcLOD;
  unsigned srcMemoryType;
  const void *srcHost;
  CUdeviceptr srcDevice;
  void *srcArray, *reserved0;
  size_t srcPitch, srcHeight;
  size_t dstXInBytes, dstY, dstZ, dstLOD;
  unsigned dstMemoryType;
  void *dstHost;
  CUdeviceptr dstDevice;
  void *dstArray, *reserved1;
  size_t dstPitch, dstHeight, WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D_v2;
#define CU_MEMORYTYPE_DEVICE 2
#define CU_MEMORYTYPE_UNIFIED 4
#define CU_POINTER_ATTRIBUTE_MEMORY_TYPE 2

typedef struct {
  unsigned char from_port, to_port, type, reserved[5];
} CUgraphEdgeData;
#define CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC 1
#define CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC 1

typedef struct {
  int result;
  void *errorNode, *errorFromNode;
} CUgraphExecUpdateResultInfo;

/* X(field, symbol, parameters): the symbols carry the versions whose parameters these are. */
#define NV_FUNCTIONS(X)                                                                                                \
  X(Init, "cuInit", (unsigned))                                                                                        \
  X(DriverGetVersion, "cuDriverGetVersion", (int *))                                                                   \
  X(DeviceGetCount, "cuDeviceGetCount", (int *))                                                                       \
  X(DeviceGet, "cuDeviceGet", (CUdevice *, int))                                                                       \
  X(DeviceGetName, "cuDeviceGetName", (char *, int, CUdevice))                                                         \
  X(DeviceTotalMem, "cuDeviceTotalMem_v2", (size_t *, CUdevice))                                                       \
  X(DeviceGetAttribute, "cuDeviceGetAttribute", (int *, int, CUdevice))                                                \
  X(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext *, CUdevice))                                       \
  X(CtxSetCurrent, "cuCtxSetCurrent", (CUcontext))                                                                     \
  X(CtxGetCurrent, "cuCtxGetCurrent", (CUcontext *))                                                                   \
  X(CtxSynchronize, "cuCtxSynchronize", (void))                                                                        \
  X(MemGetInfo, "cuMemGetInfo_v2", (size_t *, size_t *))                                                               \
  X(MemAlloc, "cuMemAlloc_v2", (CUdeviceptr *, size_t))                                                                \
  X(MemFree, "cuMemFree_v2", (CUdeviceptr))                                                                            \
  X(MemHostAlloc, "cuMemHostAlloc", (void **, size_t, unsigned))                                                       \
  X(MemFreeHost, "cuMemFreeHost", (void *))                                                                            \
  X(MemAllocAsync, "cuMemAllocAsync", (CUdeviceptr *, size_t, void *))                                                 \
  X(MemFreeAsync, "cuMemFreeAsync", (CUdeviceptr, void *))                                                             \
  X(MemPoolCreate, "cuMemPoolCreate", (void **, const hipMemPoolProps *))                                              \
  X(MemPoolDestroy, "cuMemPoolDestroy", (void *))                                                                      \
  X(MemPoolTrimTo, "cuMemPoolTrimTo", (void *, size_t))                                                                \
  X(MemPoolSetAttribute, "cuMemPoolSetAttribute", (void *, int, void *))                                               \
  X(MemPoolGetAttribute, "cuMemPoolGetAttribute", (void *, int, void *))                                               \
  X(MemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", (CUdeviceptr *, size_t, void *, void *))                         \
  X(DeviceGetDefaultMemPool, "cuDeviceGetDefaultMemPool", (void **, CUdevice))                                         \
  X(MemcpyAsync, "cuMemcpyAsync", (CUdeviceptr, CUdeviceptr, size_t, void *))                                          \
  X(Memcpy, "cuMemcpy", (CUdeviceptr, CUdeviceptr, size_t))                                                            \
  X(MemsetD8Async, "cuMemsetD8Async", (CUdeviceptr, unsigned char, size_t, void *))                                    \
  X(MemsetD16Async, "cuMemsetD16Async", (CUdeviceptr, unsigned short, size_t, void *))                                 \
  X(MemsetD32Async, "cuMemsetD32Async", (CUdeviceptr, unsigned, size_t, void *))                                       \
  X(StreamCreateWithPriority, "cuStreamCreateWithPriority", (void **, unsigned, int))                                  \
  X(StreamDestroy, "cuStreamDestroy_v2", (void *))                                                                     \
  X(StreamSynchronize, "cuStreamSynchronize", (void *))                                                                \
  X(StreamQuery, "cuStreamQuery", (void *))                                                                            \
  X(StreamWaitEvent, "cuStreamWaitEvent", (void *, void *, unsigned))                                                  \
  X(StreamBeginCapture, "cuStreamBeginCapture_v2", (void *, int))                                                      \
  X(StreamEndCapture, "cuStreamEndCapture", (void *, void **))                                                         \
  X(StreamIsCapturing, "cuStreamIsCapturing", (void *, int *))                                                         \
  X(ThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode", (int *))                                     \
  X(StreamWaitValue32, "cuStreamWaitValue32_v2", (void *, CUdeviceptr, uint32_t, unsigned))                            \
  X(StreamWriteValue32, "cuStreamWriteValue32_v2", (void *, CUdeviceptr, uint32_t, unsigned))                          \
  X(LaunchHostFunc, "cuLaunchHostFunc", (void *, hipHostFn_t, void *))                                                 \
  X(EventCreate, "cuEventCreate", (void **, unsigned))                                                                 \
  X(EventDestroy, "cuEventDestroy_v2", (void *))                                                                       \
  X(EventRecord, "cuEventRecord", (void *, void *))                                                                    \
  X(EventQuery, "cuEventQuery", (void *))                                                                              \
  X(EventSynchronize, "cuEventSynchronize", (void *))                                                                  \
  X(EventElapsedTime, "cuEventElapsedTime", (float *, void *, void *))                                                 \
  X(ModuleLoadData, "cuModuleLoadData", (void **, const void *))                                                       \
  X(ModuleUnload, "cuModuleUnload", (void *))                                                                          \
  X(ModuleGetFunction, "cuModuleGetFunction", (void **, void *, const char *))                                         \
  X(ModuleGetGlobal, "cuModuleGetGlobal_v2", (CUdeviceptr *, size_t *, void *, const char *))                          \
  X(FuncGetAttribute, "cuFuncGetAttribute", (int *, int, void *))                                                      \
  X(FuncSetAttribute, "cuFuncSetAttribute", (void *, int, int))                                                        \
  X(LaunchKernel, "cuLaunchKernel", (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,     \
                                     void *, void **, void **))                                                        \
  X(GraphCreate, "cuGraphCreate", (void **, unsigned))                                                                 \
  X(GraphDestroy, "cuGraphDestroy", (void *))                                                                          \
  X(GraphAddKernelNode, "cuGraphAddKernelNode", (void **, void *, void *const *, size_t,                               \
                                                 const CUDA_KERNEL_NODE_PARAMS_v1 *))                                  \
  X(GraphAddMemcpyNode, "cuGraphAddMemcpyNode", (void **, void *, void *const *, size_t, const CUDA_MEMCPY3D_v2 *,     \
                                                 CUcontext))                                                           \
  X(GraphAddMemsetNode, "cuGraphAddMemsetNode", (void **, void *, void *const *, size_t,                               \
                                                 const CUDA_MEMSET_NODE_PARAMS_v1 *, CUcontext))                       \
  X(GraphAddEmptyNode, "cuGraphAddEmptyNode", (void **, void *, void *const *, size_t))                                \
  X(GraphKernelNodeSetParams, "cuGraphKernelNodeSetParams", (void *, const CUDA_KERNEL_NODE_PARAMS_v1 *))              \
  X(GraphMemcpyNodeSetParams, "cuGraphMemcpyNodeSetParams", (void *, const CUDA_MEMCPY3D_v2 *))                        \
  X(GraphMemsetNodeSetParams, "cuGraphMemsetNodeSetParams", (void *, const CUDA_MEMSET_NODE_PARAMS_v1 *))              \
  X(GraphInstantiateWithFlags, "cuGraphInstantiateWithFlags", (void **, void *, unsigned long long))                   \
  X(GraphExecDestroy, "cuGraphExecDestroy", (void *))                                                                  \
  X(GraphExecUpdate, "cuGraphExecUpdate_v2", (void *, void *, CUgraphExecUpdateResultInfo *))                          \
  X(GraphExecKernelNodeSetParams, "cuGraphExecKernelNodeSetParams", (void *, void *,                                   \
                                                                     const CUDA_KERNEL_NODE_PARAMS_v1 *))              \
  X(GraphExecMemcpyNodeSetParams, "cuGraphExecMemcpyNodeSetParams", (void *, void *, const CUDA_MEMCPY3D_v2 *,         \
                                                                     CUcontext))                                       \
  X(GraphExecMemsetNodeSetParams, "cuGraphExecMemsetNodeSetParams", (void *, void *,                                   \
                                                                     const CUDA_MEMSET_NODE_PARAMS_v1 *, CUcontext))   \
  X(GraphLaunch, "cuGraphLaunch", (void *, void *))

/* NULL where the driver lacks them: some are of CUDA 12.3 and 12.4. */
#define NV_OPTIONAL(X)                                                                                                 \
  X(StreamGetCaptureInfo, "cuStreamGetCaptureInfo_v2", (void *, int *, unsigned long long *, void **, void *const **,  \
                                                        size_t *))                                                     \
  X(StreamUpdateCaptureDependencies, "cuStreamUpdateCaptureDependencies", (void *, void **, size_t, unsigned))         \
  X(GraphClone, "cuGraphClone", (void **, void *))                                                                     \
  X(GraphGetNodes, "cuGraphGetNodes", (void *, void **, size_t *))                                                     \
  X(GraphGetEdges, "cuGraphGetEdges", (void *, void **, void **, size_t *))                                            \
  X(GraphGetEdgesWithData, "cuGraphGetEdges_v2", (void *, void **, void **, CUgraphEdgeData *, size_t *))              \
  X(GraphNodeGetType, "cuGraphNodeGetType", (void *, int *))                                                           \
  X(GraphAddChildGraphNode, "cuGraphAddChildGraphNode", (void **, void *, void *const *, size_t, void *))              \
  X(GraphChildGraphNodeGetGraph, "cuGraphChildGraphNodeGetGraph", (void *, void **))                                   \
  X(GraphKernelNodeGetParams, "cuGraphKernelNodeGetParams_v2", (void *, CUDA_KERNEL_NODE_PARAMS_v2 *))                 \
  X(GraphKernelNodeGetAttribute, "cuGraphKernelNodeGetAttribute", (void *, int, void *))                               \
  X(GraphKernelNodeSetAttribute, "cuGraphKernelNodeSetAttribute", (void *, int, const void *))                         \
  X(GraphKernelNodeCopyAttributes, "cuGraphKernelNodeCopyAttributes", (void *, void *))                                \
  X(GraphMemcpyNodeGetParams, "cuGraphMemcpyNodeGetParams", (void *, CUDA_MEMCPY3D_v2 *))                              \
  X(GraphMemsetNodeGetParams, "cuGraphMemsetNodeGetParams", (void *, CUDA_MEMSET_NODE_PARAMS_v1 *))                    \
  X(KernelGetFunction, "cuKernelGetFunction", (void **, void *))                                                       \
  X(LaunchKernelEx, "cuLaunchKernelEx", (const HIP_LAUNCH_CONFIG *, void *, void **, void **))                         \
  X(FuncGetParamInfo, "cuFuncGetParamInfo", (void *, size_t, size_t *, size_t *))                                      \
  X(FuncGetName, "cuFuncGetName", (const char **, void *))                                                             \
  X(PointerGetAttribute, "cuPointerGetAttribute", (void *, int, CUdeviceptr))                                          \
  X(IpcGetMemHandle, "cuIpcGetMemHandle", (hipIpcMemHandle_t *, CUdeviceptr))                                          \
  X(IpcOpenMemHandle, "cuIpcOpenMemHandle_v2", (CUdeviceptr *, hipIpcMemHandle_t, unsigned))                           \
  X(IpcCloseMemHandle, "cuIpcCloseMemHandle", (CUdeviceptr))                                                           \
  X(GraphAddDependencies, "cuGraphAddDependencies_v2", (void *, void *const *, void *const *, const CUgraphEdgeData *, \
                                                        size_t))

typedef struct {
#define NV_FIELD(field, symbol, parameters) CUresult(*field) parameters;
  NV_FUNCTIONS(NV_FIELD)
  NV_OPTIONAL(NV_FIELD)
#undef NV_FIELD
} nv_functions;

#define NV_MAX_DEVICES 32
#define NV_MAX_ARCH 24

extern nv_functions nv; /* filled by nv_open() */
/* Open the driver, once. Returns hipErrorNoDevice on a machine without one. */
hipError_t nv_open(void);
/* Allow a function as many bytes of dynamic shared memory as a launch asks for: the driver must be told, HIP need not. */
hipError_t nv_allow_shared(hipFunction_t function, unsigned bytes);
/* Note how an API function ended for the thread's hipGetLastError, and return it: the driver's numbers are HIP's. */
hipError_t nv_done(int status);
/* Make the thread's device the driver's current one. Every call that needs a context begins with this. */
hipError_t nv_enter(void);
/* The thread's device, and its primary context, which is known after nv_enter. */
int nv_device(void);
CUcontext nv_context(void);
hipError_t nv_set_device(int device);
/* Write a device's architecture, such as sm_90, of NV_MAX_ARCH bytes at most. */
hipError_t nv_arch(int device, char *out_name);

#define NV_ENTER()                                                                                                     \
  do {                                                                                                                 \
    hipError_t entered_ = nv_enter();                                                                                  \
    if (entered_) return nv_done(entered_);                                                                            \
  } while (0)

static inline CUdeviceptr nv_address(const void *pointer) { return (CUdeviceptr)(uintptr_t)pointer; }

/* Arguments of a kernel as one block: the driver ends the list of its address and size with NULL, HIP with
 * HIP_LAUNCH_PARAM_END. out has room for 5 entries. */
static inline void **nv_extra(void **extra, void **out) {
  if (!extra) return 0;
  size_t n = 0;
  for (; n < 4 && extra[n] && extra[n] != HIP_LAUNCH_PARAM_END; n += 2) {
    out[n] = extra[n];
    out[n + 1] = extra[n + 1];
  }
  out[n] = 0;
  return out;
}
