/* What hiprt calls HIP with: every function that the C core or Python calls, looked up by name in the library in use.
 *
 * X(name, parameter types). build.py reads these lists too and gives Python each function under its own name. A library
 * without one of HIPRT_HIP_FUNCTIONS is refused. The others are NULL where a library lacks them. */

#define HIPRT_HIP_FUNCTIONS(X)                                                                                         \
  X(hipSetDevice, (int))                                                                                               \
  X(hipGetDevice, (int *))                                                                                             \
  X(hipRuntimeGetVersion, (int *))                                                                                     \
  X(hipGetDeviceCount, (int *))                                                                                        \
  X(hipGetDevicePropertiesR0600, (hipDeviceProp_tR0600 *, int))                                                        \
  X(hipDeviceSynchronize, (void))                                                                                      \
  X(hipModuleLoadData, (hipModule_t *, const void *))                                                                  \
  X(hipModuleUnload, (hipModule_t))                                                                                    \
  X(hipModuleGetFunction, (hipFunction_t *, hipModule_t, const char *))                                                \
  X(hipModuleLaunchKernel, (hipFunction_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,       \
                            hipStream_t, void **, void **))                                                            \
  X(hipMalloc, (void **, size_t))                                                                                      \
  X(hipFree, (void *))                                                                                                 \
  X(hipHostMalloc, (void **, size_t, unsigned))                                                                        \
  X(hipHostFree, (void *))                                                                                             \
  X(hipMemcpyAsync, (void *, const void *, size_t, hipMemcpyKind, hipStream_t))                                        \
  X(hipMemsetD8Async, (hipDeviceptr_t, unsigned char, size_t, hipStream_t))                                            \
  X(hipMemsetD16Async, (hipDeviceptr_t, unsigned short, size_t, hipStream_t))                                          \
  X(hipMemsetD32Async, (hipDeviceptr_t, int, size_t, hipStream_t))                                                     \
  X(hipStreamCreateWithFlags, (hipStream_t *, unsigned))                                                               \
  X(hipStreamDestroy, (hipStream_t))                                                                                   \
  X(hipStreamSynchronize, (hipStream_t))                                                                               \
  X(hipStreamWaitEvent, (hipStream_t, hipEvent_t, unsigned))                                                           \
  X(hipEventCreateWithFlags, (hipEvent_t *, unsigned))                                                                 \
  X(hipEventDestroy, (hipEvent_t))                                                                                     \
  X(hipEventRecord, (hipEvent_t, hipStream_t))                                                                         \
  X(hipEventQuery, (hipEvent_t))                                                                                       \
  X(hipEventSynchronize, (hipEvent_t))                                                                                 \
  X(hipGraphCreate, (hipGraph_t *, unsigned))                                                                          \
  X(hipGraphDestroy, (hipGraph_t))                                                                                     \
  X(hipGraphAddKernelNode, (hipGraphNode_t *, hipGraph_t, const hipGraphNode_t *, size_t, const hipKernelNodeParams *)) \
  X(hipGraphAddMemcpyNode1D, (hipGraphNode_t *, hipGraph_t, const hipGraphNode_t *, size_t, void *, const void *,      \
                              size_t, hipMemcpyKind))                                                                  \
  X(hipGraphAddMemsetNode, (hipGraphNode_t *, hipGraph_t, const hipGraphNode_t *, size_t, const hipMemsetParams *))    \
  X(hipGraphAddEmptyNode, (hipGraphNode_t *, hipGraph_t, const hipGraphNode_t *, size_t))                              \
  X(hipGraphKernelNodeSetParams, (hipGraphNode_t, const hipKernelNodeParams *))                                        \
  X(hipGraphMemcpyNodeSetParams1D, (hipGraphNode_t, void *, const void *, size_t, hipMemcpyKind))                      \
  X(hipGraphMemsetNodeSetParams, (hipGraphNode_t, const hipMemsetParams *))                                            \
  X(hipGraphInstantiate, (hipGraphExec_t *, hipGraph_t, hipGraphNode_t *, char *, size_t))                             \
  X(hipGraphExecKernelNodeSetParams, (hipGraphExec_t, hipGraphNode_t, const hipKernelNodeParams *))                    \
  X(hipGraphExecMemcpyNodeSetParams1D, (hipGraphExec_t, hipGraphNode_t, void *, const void *, size_t, hipMemcpyKind))  \
  X(hipGraphExecMemsetNodeSetParams, (hipGraphExec_t, hipGraphNode_t, const hipMemsetParams *))                        \
  X(hipGraphExecUpdate, (hipGraphExec_t, hipGraph_t, hipGraphNode_t *, hipGraphExecUpdateResult *))                    \
  X(hipGraphLaunch, (hipGraphExec_t, hipStream_t))                                                                     \
  X(hipGraphExecDestroy, (hipGraphExec_t))

#define HIPRT_HIP_OPTIONAL(X)                                                                                          \
  X(hiprtGraphAddKernelNodeOverlapped, (hipGraphNode_t *, hipGraph_t, hipGraphNode_t, const hipKernelNodeParams *))   \
  X(hiprtGraphGetEdgesWithOverlap, (hipGraph_t, hipGraphNode_t *, hipGraphNode_t *, unsigned char *, size_t *))       \
  X(hipStreamQuery, (hipStream_t))                                                                                     \
  X(hipStreamIsCapturing, (hipStream_t, hipStreamCaptureStatus *))                                                     \
  X(hipThreadExchangeStreamCaptureMode, (hipStreamCaptureMode *))                                                      \
  X(hipStreamBeginCapture, (hipStream_t, hipStreamCaptureMode))                                                        \
  X(hipStreamEndCapture, (hipStream_t, hipGraph_t *))                                                                  \
  X(hipStreamGetCaptureInfo_v2, (hipStream_t, hipStreamCaptureStatus *, unsigned long long *, hipGraph_t *,            \
                                 const hipGraphNode_t **, size_t *))                                                   \
  X(hipStreamUpdateCaptureDependencies, (hipStream_t, hipGraphNode_t *, size_t, unsigned))                             \
  X(hipGraphClone, (hipGraph_t *, hipGraph_t))                                                                         \
  X(hipGraphGetNodes, (hipGraph_t, hipGraphNode_t *, size_t *))                                                        \
  X(hipGraphGetEdges, (hipGraph_t, hipGraphNode_t *, hipGraphNode_t *, size_t *))                                      \
  X(hipGraphNodeGetType, (hipGraphNode_t, hipGraphNodeType *))                                                         \
  X(hipGraphChildGraphNodeGetGraph, (hipGraphNode_t, hipGraph_t *))                                                    \
  X(hipGraphKernelNodeGetParams, (hipGraphNode_t, hipKernelNodeParams *))                                              \
  X(hipGraphKernelNodeGetAttribute, (hipGraphNode_t, hipLaunchAttributeID, hipLaunchAttributeValue *))                 \
  X(hipGraphKernelNodeCopyAttributes, (hipGraphNode_t, hipGraphNode_t))                                                \
  X(hipGraphMemcpyNodeGetParams, (hipGraphNode_t, hipMemcpy3DParms *))                                                 \
  X(hipGraphMemsetNodeGetParams, (hipGraphNode_t, hipMemsetParams *))                                                  \
  X(hipKernelGetParamInfo, (hipKernel_t, size_t, size_t *, size_t *))                                                  \
  X(hipGetFuncBySymbol, (hipFunction_t *, const void *))                                                               \
  X(hipDrvLaunchKernelEx, (const HIP_LAUNCH_CONFIG *, hipFunction_t, void **, void **))                                \
  X(hipPeekAtLastError, (void))                                                                                        \
  X(hipGetLastError, (void))                                                                                           \
  X(hipPointerGetAttributes, (hipPointerAttribute_t *, const void *))                                                  \
  X(hipEventElapsedTime, (float *, hipEvent_t, hipEvent_t))                                                            \
  X(hipDeviceGetAttribute, (int *, hipDeviceAttribute_t, int))                                                         \
  X(hipExtMallocWithFlags, (void **, size_t, unsigned))                                                                \
  X(hipIpcGetMemHandle, (hipIpcMemHandle_t *, void *))                                                                 \
  X(hipIpcOpenMemHandle, (void **, hipIpcMemHandle_t, unsigned))                                                       \
  X(hipIpcCloseMemHandle, (void *))                                                                                    \
  X(hipMemGetInfo, (size_t *, size_t *))                                                                               \
  X(hipMallocAsync, (void **, size_t, hipStream_t))                                                                    \
  X(hipFreeAsync, (void *, hipStream_t))                                                                               \
  X(hipMallocFromPoolAsync, (void **, size_t, hipMemPool_t, hipStream_t))                                              \
  X(hipMemPoolCreate, (hipMemPool_t *, const hipMemPoolProps *))                                                       \
  X(hipMemPoolTrimTo, (hipMemPool_t, size_t))

/* The compiler's, in the same file or in libhiprtc beside it. */
#define HIPRT_HIPRTC_FUNCTIONS(X)                                                                                      \
  X(hiprtcVersion, (int *, int *))                                                                                     \
  X(hiprtcCreateProgram, (hiprtcProgram *, const char *, const char *, int, const char *const *, const char *const *)) \
  X(hiprtcDestroyProgram, (hiprtcProgram *))                                                                           \
  X(hiprtcAddNameExpression, (hiprtcProgram, const char *))                                                            \
  X(hiprtcCompileProgram, (hiprtcProgram, int, const char *const *))                                                   \
  X(hiprtcGetCodeSize, (hiprtcProgram, size_t *))                                                                      \
  X(hiprtcGetCode, (hiprtcProgram, char *))                                                                            \
  X(hiprtcGetLoweredName, (hiprtcProgram, const char *, const char **))                                                \
  X(hiprtcGetProgramLogSize, (hiprtcProgram, size_t *))                                                                \
  X(hiprtcGetProgramLog, (hiprtcProgram, char *))

/* HIP's constants that Python uses. */
#define HIPRT_HIP_CONSTANTS(X)                                                                                         \
  X(hipStreamNonBlocking)                                                                                              \
  X(hipStreamCaptureModeRelaxed)                                                                                       \
  X(hipEventDefault)                                                                                                   \
  X(hipEventDisableTiming)                                                                                             \
  X(hipHostMallocDefault)                                                                                              \
  X(hipDeviceMallocUncached)                                                                                           \
  X(hipIpcMemLazyEnablePeerAccess)                                                                                     \
  X(hipMemcpyHostToDevice)                                                                                             \
  X(hipMemcpyDeviceToHost)                                                                                             \
  X(hipMemcpyDeviceToDevice)                                                                                           \
  X(hipMemAllocationTypePinned)                                                                                        \
  X(hipMemLocationTypeDevice)                                                                                          \
  X(hipDeviceAttributeMemoryPoolsSupported)
