/* The functions whose null stream is the calling thread's own: HIP_API_PER_THREAD_DEFAULT_STREAM gives them their usual names. */
#ifndef HIPRT_HIP_PER_THREAD_API_H
#define HIPRT_HIP_PER_THREAD_API_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

hipError_t hipMemcpyAsync_spt(void *dst, const void *src, size_t sizeBytes, hipMemcpyKind kind,
    hipStream_t stream HIPRT_DEFAULT(0));
hipError_t hipMemcpy2DAsync_spt(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
    size_t height, hipMemcpyKind kind, hipStream_t stream HIPRT_DEFAULT(0));
hipError_t hipMemcpy3DAsync_spt(const hipMemcpy3DParms *p, hipStream_t stream HIPRT_DEFAULT(0));
hipError_t hipMemcpy2DToArrayAsync_spt(hipArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t spitch,
    size_t width, size_t height, hipMemcpyKind kind, hipStream_t stream HIPRT_DEFAULT(0));
hipError_t hipMemcpy2DFromArrayAsync_spt(void *dst, size_t dpitch, hipArray_const_t src, size_t wOffset, size_t hOffset,
    size_t width, size_t height, hipMemcpyKind kind, hipStream_t stream HIPRT_DEFAULT(0));
hipError_t hipMemcpyToSymbolAsync_spt(const void *symbol, const void *src, size_t sizeBytes, size_t offset,
    hipMemcpyKind kind, hipStream_t stream HIPRT_DEFAULT(0));
hipError_t hipMemcpyFromSymbolAsync_spt(void *dst, const void *symbol, size_t sizeBytes, size_t offset,
    hipMemcpyKind kind, hipStream_t stream HIPRT_DEFAULT(0));
hipError_t hipMemsetAsync_spt(void *dst, int value, size_t sizeBytes, hipStream_t stream HIPRT_DEFAULT(0));
hipError_t hipMemset2DAsync_spt(void *dst, size_t pitch, int value, size_t width, size_t height,
    hipStream_t stream HIPRT_DEFAULT(0));
hipError_t hipMemset3DAsync_spt(hipPitchedPtr pitchedDevPtr, int value, hipExtent extent,
    hipStream_t stream HIPRT_DEFAULT(0));
hipError_t hipStreamQuery_spt(hipStream_t stream);
hipError_t hipStreamSynchronize_spt(hipStream_t stream);
hipError_t hipStreamGetFlags_spt(hipStream_t stream, unsigned int *flags);
hipError_t hipStreamGetPriority_spt(hipStream_t stream, int *priority);
hipError_t hipStreamWaitEvent_spt(hipStream_t stream, hipEvent_t event, unsigned int flags);
hipError_t hipStreamAddCallback_spt(hipStream_t stream, hipStreamCallback_t callback, void *userData,
    unsigned int flags);
hipError_t hipLaunchHostFunc_spt(hipStream_t stream, hipHostFn_t fn, void *userData);
hipError_t hipEventRecord_spt(hipEvent_t event, hipStream_t stream HIPRT_DEFAULT(0));
hipError_t hipStreamBeginCapture_spt(hipStream_t stream, hipStreamCaptureMode mode);
hipError_t hipStreamEndCapture_spt(hipStream_t stream, hipGraph_t *pGraph);
hipError_t hipStreamIsCapturing_spt(hipStream_t stream, hipStreamCaptureStatus *pCaptureStatus);
hipError_t hipStreamGetCaptureInfo_spt(hipStream_t stream, hipStreamCaptureStatus *pCaptureStatus,
    unsigned long long *pId);
hipError_t hipStreamGetCaptureInfo_v2_spt(hipStream_t stream, hipStreamCaptureStatus *captureStatus_out,
    unsigned long long *id_out, hipGraph_t *graph_out, const hipGraphNode_t **dependencies_out,
    size_t *numDependencies_out);
hipError_t hipGraphLaunch_spt(hipGraphExec_t graphExec, hipStream_t stream HIPRT_DEFAULT(0));
hipError_t hipLaunchKernel_spt(const void *function_address, dim3 numBlocks, dim3 dimBlocks, void **args,
    size_t sharedMemBytes, hipStream_t stream HIPRT_DEFAULT(0));
hipError_t hipLaunchCooperativeKernel_spt(const void *f, dim3 gridDim, dim3 blockDim, void **kernelParams,
    uint32_t sharedMemBytes, hipStream_t stream HIPRT_DEFAULT(0));
hipError_t hipMemcpy_spt(void *dst, const void *src, size_t sizeBytes, hipMemcpyKind kind);
hipError_t hipMemcpy2D_spt(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
    hipMemcpyKind kind);
hipError_t hipMemcpy3D_spt(const hipMemcpy3DParms *p);
hipError_t hipMemcpy2DToArray_spt(hipArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t spitch,
    size_t width, size_t height, hipMemcpyKind kind);
hipError_t hipMemcpy2DFromArray_spt(void *dst, size_t dpitch, hipArray_const_t src, size_t wOffset, size_t hOffset,
    size_t width, size_t height, hipMemcpyKind kind);
hipError_t hipMemcpyFromArray_spt(void *dst, hipArray_const_t src, size_t wOffset, size_t hOffset, size_t count,
    hipMemcpyKind kind);
hipError_t hipMemcpyToSymbol_spt(const void *symbol, const void *src, size_t sizeBytes, size_t offset,
    hipMemcpyKind kind);
hipError_t hipMemcpyFromSymbol_spt(void *dst, const void *symbol, size_t sizeBytes, size_t offset,
    hipMemcpyKind kind);
hipError_t hipMemset_spt(void *dst, int value, size_t sizeBytes);
hipError_t hipMemset2D_spt(void *dst, size_t pitch, int value, size_t width, size_t height);
hipError_t hipMemset3D_spt(hipPitchedPtr pitchedDevPtr, int value, hipExtent extent);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#ifdef HIP_API_PER_THREAD_DEFAULT_STREAM
#define hipMemcpy hipMemcpy_spt
#define hipMemcpy2D hipMemcpy2D_spt
#define hipMemcpy3D hipMemcpy3D_spt
#define hipMemcpy2DToArray hipMemcpy2DToArray_spt
#define hipMemcpy2DFromArray hipMemcpy2DFromArray_spt
#define hipMemcpyFromArray hipMemcpyFromArray_spt
#define hipMemcpyToSymbol hipMemcpyToSymbol_spt
#define hipMemcpyFromSymbol hipMemcpyFromSymbol_spt
#define hipMemset hipMemset_spt
#define hipMemset2D hipMemset2D_spt
#define hipMemset3D hipMemset3D_spt
#define hipMemcpyAsync hipMemcpyAsync_spt
#define hipMemcpy2DAsync hipMemcpy2DAsync_spt
#define hipMemcpy3DAsync hipMemcpy3DAsync_spt
#define hipMemcpy2DToArrayAsync hipMemcpy2DToArrayAsync_spt
#define hipMemcpy2DFromArrayAsync hipMemcpy2DFromArrayAsync_spt
#define hipMemcpyToSymbolAsync hipMemcpyToSymbolAsync_spt
#define hipMemcpyFromSymbolAsync hipMemcpyFromSymbolAsync_spt
#define hipMemsetAsync hipMemsetAsync_spt
#define hipMemset2DAsync hipMemset2DAsync_spt
#define hipMemset3DAsync hipMemset3DAsync_spt
#define hipStreamQuery hipStreamQuery_spt
#define hipStreamSynchronize hipStreamSynchronize_spt
#define hipStreamGetFlags hipStreamGetFlags_spt
#define hipStreamGetPriority hipStreamGetPriority_spt
#define hipStreamWaitEvent hipStreamWaitEvent_spt
#define hipStreamAddCallback hipStreamAddCallback_spt
#define hipLaunchHostFunc hipLaunchHostFunc_spt
#define hipEventRecord hipEventRecord_spt
#define hipStreamBeginCapture hipStreamBeginCapture_spt
#define hipStreamEndCapture hipStreamEndCapture_spt
#define hipStreamIsCapturing hipStreamIsCapturing_spt
#define hipStreamGetCaptureInfo hipStreamGetCaptureInfo_spt
#define hipStreamGetCaptureInfo_v2 hipStreamGetCaptureInfo_v2_spt
#define hipGraphLaunch hipGraphLaunch_spt
#define hipLaunchKernel hipLaunchKernel_spt
#define hipLaunchCooperativeKernel hipLaunchCooperativeKernel_spt
#endif

#endif
