/* The HIP functions of the per-node path, taken from the chosen library by name. X(name, parameter list) */
#define HIPRT_HIP_FUNCTIONS(X)                                                                                         \
  X(hipSetDevice, (int))                                                                                               \
  X(hipGetDevice, (int *))                                                                                             \
  X(hipModuleLaunchKernel, (hipFunction_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,       \
                            hipStream_t, void **, void **))                                                            \
  X(hipHostMalloc, (void **, size_t, unsigned))                                                                        \
  X(hipHostFree, (void *))                                                                                             \
  X(hipMemcpyAsync, (void *, const void *, size_t, hipMemcpyKind, hipStream_t))                                        \
  X(hipMemsetD8Async, (hipDeviceptr_t, unsigned char, size_t, hipStream_t))                                            \
  X(hipMemsetD16Async, (hipDeviceptr_t, unsigned short, size_t, hipStream_t))                                          \
  X(hipMemsetD32Async, (hipDeviceptr_t, int, size_t, hipStream_t))                                                     \
  X(hipStreamSynchronize, (hipStream_t))                                                                               \
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
  X(hipGraphInstantiate, (hipGraphExec_t *, hipGraph_t, hipGraphNode_t *, char *, size_t))                             \
  X(hipGraphExecKernelNodeSetParams, (hipGraphExec_t, hipGraphNode_t, const hipKernelNodeParams *))                    \
  X(hipGraphExecMemcpyNodeSetParams1D, (hipGraphExec_t, hipGraphNode_t, void *, const void *, size_t, hipMemcpyKind))  \
  X(hipGraphExecMemsetNodeSetParams, (hipGraphExec_t, hipGraphNode_t, const hipMemsetParams *))                        \
  X(hipGraphExecUpdate, (hipGraphExec_t, hipGraph_t, hipGraphNode_t *, hipGraphExecUpdateResult *))                    \
  X(hipGraphLaunch, (hipGraphExec_t, hipStream_t))                                                                     \
  X(hipGraphExecDestroy, (hipGraphExec_t))
/* NULL where a library lacks them. */
#define HIPRT_HIP_OPTIONAL(X)                                                                                          \
  X(hiprtGraphAddKernelNodeOverlapped, (hipGraphNode_t *, hipGraph_t, hipGraphNode_t, const hipKernelNodeParams *))   \
  X(hipStreamIsCapturing, (hipStream_t, hipStreamCaptureStatus *))                                                     \
  X(hipThreadExchangeStreamCaptureMode, (hipStreamCaptureMode *))
