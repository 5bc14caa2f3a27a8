// The queueing of work by the rules of stream capture.
#pragma once

#include <memory>
#include <utility>

#include "graph/capture_rules.h"
#include "hip/hip_runtime_api.h"
#include "runtime/work.h"

namespace cpu {

// Queues work, or makes it a node of the graph being captured. hipErrorInvalidHandle for a destroyed stream.
hipError_t submit(hipStream_t stream, std::shared_ptr<Work> work);

// Queues a copy or fill, by the same rules but on a stream that does not capture, and waits for it. It may run on the
// calling thread.
hipError_t execute(hipStream_t stream, std::shared_ptr<Work> work);

// Runs the copy or fill that `make` fills in on the null stream and waits for it, if no capture forbids the call.
template <class Transfer, class Make>
hipError_t synchronous(Make &&make) {
  if (const hipError_t error = capture_forbids_implicit()) return error;
  std::shared_ptr<Transfer> work;
  const hipError_t error = make(&work);
  return error || work->width == 0 ? error : execute(hipStreamLegacy, std::move(work));
}

}  // namespace cpu
