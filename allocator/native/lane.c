#include "lane.h"

#include <stdlib.h>

#include "capture.h"

void hiprt_lane_fence_behind(hiprt_lane *lane, uint64_t serial) {
  /* The handle of a closed stream names nothing, and NVIDIA's driver does not survive a question about it. */
  if (lane->core->is_closed) lane->can_fence = 0;
  if (!lane->can_fence || !hiprt_library_is_open() || hiprt_is_capturing(lane->stream)) return;
  int failed = hiprt_hip.hipSetDevice(lane->device) != hipSuccess;
  if (!failed && !lane->fence) failed = hiprt_hip.hipEventCreateWithFlags(&lane->fence, hipEventDisableTiming) != hipSuccess;
  if (failed || hiprt_hip.hipEventRecord(lane->fence, lane->stream) != hipSuccess) {
    lane->can_fence = 0; /* the stream is gone: its blocks wait for a trim */
    return;
  }
  lane->is_pending = 1;
  lane->fenced = serial;
}

void hiprt_lane_fence(hiprt_lane *lane) {
  if (!lane->is_pending && lane->passed < lane->serial) hiprt_lane_fence_behind(lane, lane->serial);
}

void hiprt_lane_pass(hiprt_lane *lane, uint64_t serial) {
  if (serial > lane->passed) lane->passed = serial;
  if (lane->fenced <= lane->passed) lane->is_pending = 0;
}

void hiprt_lane_ask(hiprt_lane *lane) {
  if (lane->is_pending && hiprt_hip.hipEventQuery(lane->fence) == hipSuccess) hiprt_lane_pass(lane, lane->fenced);
}

int hiprt_lane_is_retiring(const hiprt_lane *lane, const block *b) { return !b->is_used && b->serial > lane->passed; }

void hiprt_lane_free(hiprt_lane *lane) {
  if (lane->fence) hiprt_hip.hipEventDestroy(lane->fence);
  hiprt_bins_free(&lane->bins);
  hiprt_stream_release(lane->core);
  free(lane);
}
