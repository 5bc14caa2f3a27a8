/* Streams and events. */
#include "cuda_driver.h"

hipError_t hipStreamCreateWithPriority(hipStream_t *stream, unsigned int flags, int priority) {
  NV_ENTER();
  return nv_done(nv.StreamCreateWithPriority((void **)stream, flags, priority));
}

hipError_t hipStreamCreateWithFlags(hipStream_t *stream, unsigned int flags) {
  return hipStreamCreateWithPriority(stream, flags, 0);
}

hipError_t hipStreamCreate(hipStream_t *stream) { return hipStreamCreateWithPriority(stream, hipStreamDefault, 0); }

hipError_t hipStreamDestroy(hipStream_t stream) {
  NV_ENTER();
  return nv_done(nv.StreamDestroy(stream));
}

hipError_t hipStreamSynchronize(hipStream_t stream) {
  NV_ENTER();
  return nv_done(nv.StreamSynchronize(stream));
}

hipError_t hipStreamQuery(hipStream_t stream) {
  NV_ENTER();
  return nv_done(nv.StreamQuery(stream));
}

hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned int flags) {
  NV_ENTER();
  return nv_done(nv.StreamWaitEvent(stream, event, flags));
}

/* The driver has the same flags, and no mask. */
hipError_t hipStreamWaitValue32(hipStream_t stream, void *pointer, uint32_t value, unsigned flags, uint32_t mask) {
  NV_ENTER();
  if (mask != 0xffffffffu) return nv_done(hipErrorNotSupported);
  return nv_done(nv.StreamWaitValue32(stream, nv_address(pointer), value, flags));
}

hipError_t hipStreamWriteValue32(hipStream_t stream, void *pointer, uint32_t value, unsigned flags) {
  NV_ENTER();
  return nv_done(nv.StreamWriteValue32(stream, nv_address(pointer), value, flags));
}

hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t function, void *data) {
  NV_ENTER();
  return nv_done(nv.LaunchHostFunc(stream, function, data));
}

hipError_t hipEventCreateWithFlags(hipEvent_t *event, unsigned flags) {
  NV_ENTER();
  return nv_done(nv.EventCreate((void **)event, flags & (hipEventBlockingSync | hipEventDisableTiming)));
}

hipError_t hipEventCreate(hipEvent_t *event) { return hipEventCreateWithFlags(event, hipEventDefault); }

hipError_t hipEventDestroy(hipEvent_t event) {
  NV_ENTER();
  return nv_done(nv.EventDestroy(event));
}

hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) {
  NV_ENTER();
  return nv_done(nv.EventRecord(event, stream));
}

hipError_t hipEventQuery(hipEvent_t event) {
  NV_ENTER();
  return nv_done(nv.EventQuery(event));
}

hipError_t hipEventSynchronize(hipEvent_t event) {
  NV_ENTER();
  return nv_done(nv.EventSynchronize(event));
}

hipError_t hipEventElapsedTime(float *ms, hipEvent_t start, hipEvent_t stop) {
  NV_ENTER();
  return nv_done(nv.EventElapsedTime(ms, start, stop));
}
