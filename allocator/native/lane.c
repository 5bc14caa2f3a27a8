#include "lane.h"

#include <stdlib.h>

#include "capture.h"
#include "lookout.h"

/* Whether the stream can be asked and can record. The handle of a closed stream names nothing, and NVIDIA's driver does
 * not survive a question about it. */
static int is_usable(hiprt_lane *lane) {
  if (lane->core->is_closed) lane->can_fence = 0;
  return lane->can_fence && hiprt_library_is_open() && !hiprt_is_capturing(lane->stream);
}

/* Put a fence behind all frees so far. is_last: the stream may go next, and with it what an event of its own is asked
 * about. */
static void put_fence(hiprt_lane *lane, uint64_t serial, int is_last) {
  int failed = hiprt_hip.hipSetDevice(lane->device) != hipSuccess;
  if (!failed && !lane->fence) failed = hiprt_hip.hipEventCreateWithFlags(&lane->fence, hipEventDisableTiming) != hipSuccess;
  if (!failed)
    failed = (is_last ? hiprt_lookout_record(lane->device, lane->stream, lane->fence)
                      : hiprt_hip.hipEventRecord(lane->fence, lane->stream)) != hipSuccess;
  if (failed) {
    lane->can_fence = 0; /* the stream is gone: its blocks wait for a trim */
    return;
  }
  lane->is_pending = 1;
  lane->fenced = serial;
}

void hiprt_lane_fence(hiprt_lane *lane) {
  if (!lane->is_pending && lane->passed < lane->serial && is_usable(lane)) put_fence(lane, lane->serial, 0);
}

void hiprt_lane_end(hiprt_lane *lane, uint64_t serial) {
  if (!is_usable(lane)) return;
  if (hiprt_ask_stream(lane->stream))
    put_fence(lane, serial, 1);
  else
    hiprt_lane_pass(lane, serial);
}

int hiprt_lane_may_ask(const hiprt_lane *lane) {
  /* The handle of a stream of somebody else may name nothing by now. */
  const hiprt_stream *core = lane->core;
  return lane->is_closed || core->is_closed || !core->is_own || !lane->can_fence || !hiprt_is_capturing(lane->stream);
}

void hiprt_lane_pass(hiprt_lane *lane, uint64_t serial) {
  if (serial > lane->passed) lane->passed = serial;
  if (lane->fenced <= lane->passed) lane->is_pending = 0;
}

void hiprt_lane_ask(hiprt_lane *lane) {
  if (lane->is_pending && hiprt_lane_may_ask(lane) && hiprt_hip.hipEventQuery(lane->fence) == hipSuccess)
    hiprt_lane_pass(lane, lane->fenced);
}

int hiprt_lane_is_retiring(const hiprt_lane *lane, const block *b) { return !b->is_used && b->serial > lane->passed; }

void hiprt_lane_free(hiprt_lane *lane) {
  if (lane->fence) hiprt_hip.hipEventDestroy(lane->fence);
  hiprt_bins_free(&lane->bins);
  hiprt_stream_release(lane->core);
  free(lane);
}
