// What copies and fills have in common: how the synchronous ones are done.
#pragma once

#include <memory>

#include "graph/capture.h"
#include "runtime/stream.h"

namespace cpu {

// Do the work that `make` fills in on the null stream, after it is known that the call is legal at all.
template <class Transfer, class Make>
hipError_t synchronous(Make &&make) {
  if (const hipError_t error = capture_forbids_implicit()) return error;
  std::shared_ptr<Transfer> work;
  const hipError_t error = make(&work);
  return error || work->width == 0 ? error : execute(hipStreamLegacy, std::move(work));
}

}  // namespace cpu
