// The forms of HIP's functions that clang calls with -fgpu-default-stream=per-thread: the null stream is the thread's own.
#include "hip/hip_runtime_api.h"

namespace {

hipStream_t own(hipStream_t stream) { return stream ? stream : hipStreamPerThread; }

// Waits for what a call has queued on the thread's stream.
hipError_t finished(hipError_t queued) { return queued ? queued : hipStreamSynchronize(hipStreamPerThread); }

}  // namespace

hipError_t hipMemcpyAsync_spt(void *dst, const void *src, size_t sizeBytes, hipMemcpyKind kind,
    hipStream_t stream) {
  return hipMemcpyAsync(dst, src, sizeBytes, kind, own(stream));
}

hipError_t hipMemcpy2DAsync_spt(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
    size_t height, hipMemcpyKind kind, hipStream_t stream) {
  return hipMemcpy2DAsync(dst, dpitch, src, spitch, width, height, kind, own(stream));
}

hipError_t hipMemcpy3DAsync_spt(const hipMemcpy3DParms *p, hipStream_t stream) {
  return hipMemcpy3DAsync(p, own(stream));
}

hipError_t hipMemcpy2DToArrayAsync_spt(hipArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t spitch,
    size_t width, size_t height, hipMemcpyKind kind, hipStream_t stream) {
  return hipMemcpy2DToArrayAsync(dst, wOffset, hOffset, src, spitch, width, height, kind, own(stream));
}

hipError_t hipMemcpy2DFromArrayAsync_spt(void *dst, size_t dpitch, hipArray_const_t src, size_t wOffset, size_t hOffset,
    size_t width, size_t height, hipMemcpyKind kind, hipStream_t stream) {
  return hipMemcpy2DFromArrayAsync(dst, dpitch, src, wOffset, hOffset, width, height, kind, own(stream));
}

hipError_t hipMemcpyToSymbolAsync_spt(const void *symbol, const void *src, size_t sizeBytes, size_t offset,
    hipMemcpyKind kind, hipStream_t stream) {
  return hipMemcpyToSymbolAsync(symbol, src, sizeBytes, offset, kind, own(stream));
}

hipError_t hipMemcpyFromSymbolAsync_spt(void *dst, const void *symbol, size_t sizeBytes, size_t offset,
    hipMemcpyKind kind, hipStream_t stream) {
  return hipMemcpyFromSymbolAsync(dst, symbol, sizeBytes, offset, kind, own(stream));
}

hipError_t hipMemsetAsync_spt(void *dst, int value, size_t sizeBytes, hipStream_t stream) {
  return hipMemsetAsync(dst, value, sizeBytes, own(stream));
}

hipError_t hipMemset2DAsync_spt(void *dst, size_t pitch, int value, size_t width, size_t height,
    hipStream_t stream) {
  return hipMemset2DAsync(dst, pitch, value, width, height, own(stream));
}

hipError_t hipMemset3DAsync_spt(hipPitchedPtr pitchedDevPtr, int value, hipExtent extent, hipStream_t stream) {
  return hipMemset3DAsync(pitchedDevPtr, value, extent, own(stream));
}

hipError_t hipStreamQuery_spt(hipStream_t stream) {
  return hipStreamQuery(own(stream));
}

hipError_t hipStreamSynchronize_spt(hipStream_t stream) {
  return hipStreamSynchronize(own(stream));
}

hipError_t hipStreamGetFlags_spt(hipStream_t stream, unsigned int *flags) {
  return hipStreamGetFlags(own(stream), flags);
}

hipError_t hipStreamGetPriority_spt(hipStream_t stream, int *priority) {
  return hipStreamGetPriority(own(stream), priority);
}

hipError_t hipStreamWaitEvent_spt(hipStream_t stream, hipEvent_t event, unsigned int flags) {
  return hipStreamWaitEvent(own(stream), event, flags);
}

hipError_t hipStreamAddCallback_spt(hipStream_t stream, hipStreamCallback_t callback, void *userData,
    unsigned int flags) {
  return hipStreamAddCallback(own(stream), callback, userData, flags);
}

hipError_t hipLaunchHostFunc_spt(hipStream_t stream, hipHostFn_t fn, void *userData) {
  return hipLaunchHostFunc(own(stream), fn, userData);
}

hipError_t hipEventRecord_spt(hipEvent_t event, hipStream_t stream) {
  return hipEventRecord(event, own(stream));
}

hipError_t hipStreamBeginCapture_spt(hipStream_t stream, hipStreamCaptureMode mode) {
  return hipStreamBeginCapture(own(stream), mode);
}

hipError_t hipStreamEndCapture_spt(hipStream_t stream, hipGraph_t *pGraph) {
  return hipStreamEndCapture(own(stream), pGraph);
}

hipError_t hipStreamIsCapturing_spt(hipStream_t stream, hipStreamCaptureStatus *pCaptureStatus) {
  return hipStreamIsCapturing(own(stream), pCaptureStatus);
}

hipError_t hipStreamGetCaptureInfo_spt(hipStream_t stream, hipStreamCaptureStatus *pCaptureStatus,
    unsigned long long *pId) {
  return hipStreamGetCaptureInfo(own(stream), pCaptureStatus, pId);
}

hipError_t hipStreamGetCaptureInfo_v2_spt(hipStream_t stream, hipStreamCaptureStatus *captureStatus_out,
    unsigned long long *id_out, hipGraph_t *graph_out, const hipGraphNode_t **dependencies_out,
    size_t *numDependencies_out) {
  return hipStreamGetCaptureInfo_v2(own(stream), captureStatus_out, id_out, graph_out, dependencies_out,
      numDependencies_out);
}

hipError_t hipGraphLaunch_spt(hipGraphExec_t graphExec, hipStream_t stream) {
  return hipGraphLaunch(graphExec, own(stream));
}

hipError_t hipLaunchKernel_spt(const void *function_address, dim3 numBlocks, dim3 dimBlocks, void **args,
    size_t sharedMemBytes, hipStream_t stream) {
  return hipLaunchKernel(function_address, numBlocks, dimBlocks, args, sharedMemBytes, own(stream));
}

hipError_t hipLaunchCooperativeKernel_spt(const void *f, dim3 gridDim, dim3 blockDim, void **kernelParams,
    uint32_t sharedMemBytes, hipStream_t stream) {
  return hipLaunchCooperativeKernel(f, gridDim, blockDim, kernelParams, sharedMemBytes, own(stream));
}

hipError_t hipMemcpy_spt(void *dst, const void *src, size_t sizeBytes, hipMemcpyKind kind) {
  return finished(hipMemcpyAsync(dst, src, sizeBytes, kind, hipStreamPerThread));
}

hipError_t hipMemcpy2D_spt(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
    hipMemcpyKind kind) {
  return finished(hipMemcpy2DAsync(dst, dpitch, src, spitch, width, height, kind, hipStreamPerThread));
}

hipError_t hipMemcpy3D_spt(const hipMemcpy3DParms *p) {
  return finished(hipMemcpy3DAsync(p, hipStreamPerThread));
}

hipError_t hipMemcpy2DToArray_spt(hipArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t spitch,
    size_t width, size_t height, hipMemcpyKind kind) {
  return finished(
      hipMemcpy2DToArrayAsync(dst, wOffset, hOffset, src, spitch, width, height, kind, hipStreamPerThread));
}

hipError_t hipMemcpy2DFromArray_spt(void *dst, size_t dpitch, hipArray_const_t src, size_t wOffset, size_t hOffset,
    size_t width, size_t height, hipMemcpyKind kind) {
  return finished(
      hipMemcpy2DFromArrayAsync(dst, dpitch, src, wOffset, hOffset, width, height, kind, hipStreamPerThread));
}

hipError_t hipMemcpyToSymbol_spt(const void *symbol, const void *src, size_t sizeBytes, size_t offset,
    hipMemcpyKind kind) {
  return finished(hipMemcpyToSymbolAsync(symbol, src, sizeBytes, offset, kind, hipStreamPerThread));
}

hipError_t hipMemcpyFromSymbol_spt(void *dst, const void *symbol, size_t sizeBytes, size_t offset,
    hipMemcpyKind kind) {
  return finished(hipMemcpyFromSymbolAsync(dst, symbol, sizeBytes, offset, kind, hipStreamPerThread));
}

hipError_t hipMemset_spt(void *dst, int value, size_t sizeBytes) {
  return finished(hipMemsetAsync(dst, value, sizeBytes, hipStreamPerThread));
}

hipError_t hipMemset2D_spt(void *dst, size_t pitch, int value, size_t width, size_t height) {
  return finished(hipMemset2DAsync(dst, pitch, value, width, height, hipStreamPerThread));
}

hipError_t hipMemset3D_spt(hipPitchedPtr pitchedDevPtr, int value, hipExtent extent) {
  return finished(hipMemset3DAsync(pitchedDevPtr, value, extent, hipStreamPerThread));
}
