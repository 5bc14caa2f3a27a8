/* Lanes: a stream as a pool sees it, with the blocks that it freed and the fence that says when others may have them.
 *
 * A fence is an event recorded behind some of the lane's frees. Once it has happened, everything that the stream did
 * with those blocks is done (G1). Frees are counted, so that a fence is known by the last free before it. */
#pragma once
#include "bins.h"
#include "library.h"
#include "stream.h"

struct hiprt_lane {
  uint64_t number;
  hipStream_t stream;
  hiprt_stream *core; /* the stream, by which memory is ordered with other streams */
  int device;
  int can_fence; /* the stream's handle is known and valid */
  int is_closed;
  uint64_t blocks; /* that name the lane, and calls that wait for its fence: a closed lane goes with the last of them */
  hipEvent_t fence;
  int is_pending;  /* the fence has not been seen to happen */
  uint64_t serial; /* of the last free */
  uint64_t fenced; /* of the last free before the fence */
  uint64_t passed; /* of the last free whose fence has happened */
  hiprt_bins bins;
  hiprt_lane *next;
};

/* Put a fence behind the frees of a lane, unless one is on its way. */
void hiprt_lane_fence(hiprt_lane *lane);
/* Put a fence behind the free `serial` and all before it, whatever is on its way: the stream may go next. */
void hiprt_lane_end(hiprt_lane *lane, uint64_t serial);
/* Whether the fence may be asked and waited for: while its stream is captured, HIP up to 6.4 ends the capture for that. */
int hiprt_lane_may_ask(const hiprt_lane *lane);
/* Ask whether the fence has happened. */
void hiprt_lane_ask(hiprt_lane *lane);
/* Note that a fence behind the free `serial` has happened. */
void hiprt_lane_pass(hiprt_lane *lane, uint64_t serial);
/* Whether the lane may still do something with a block that it freed. */
int hiprt_lane_is_retiring(const hiprt_lane *lane, const block *b);
void hiprt_lane_free(hiprt_lane *lane);
