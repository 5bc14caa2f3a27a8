#include "capture.h"

int hiprt_capture_mode(int mode) {
  hipStreamCaptureMode swapped = (hipStreamCaptureMode)mode;
  if (!hiprt_hip.hipThreadExchangeStreamCaptureMode || hiprt_hip.hipThreadExchangeStreamCaptureMode(&swapped)) return mode;
  return (int)swapped;
}

int hiprt_is_capturing(hipStream_t stream) {
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  if (!hiprt_hip.hipStreamIsCapturing) return 0;
  return hiprt_hip.hipStreamIsCapturing(stream, &status) != hipSuccess || status != hipStreamCaptureStatusNone;
}
