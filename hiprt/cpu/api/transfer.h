// Copies on a stream that the call need not wait for.
#pragma once

#include <memory>
#include <utility>

#include "api/submit.h"
#include "graph/capture_rules.h"
#include "runtime/copy.h"
#include "runtime/memory.h"
#include "runtime/stream.h"

namespace cpu {

// HIP finishes an asynchronous copy that touches pageable memory before it returns. Taking a copy of the source's bytes
// serves the caller as well, and the call need not wait.
template <class Make>
hipError_t asynchronous(hipStream_t stream, Make &&make) {
  if (!is_valid(stream)) return no_such_handle();
  std::shared_ptr<CopyWork> work;
  if (const hipError_t error = make(&work)) return error;
  if (capture_of(stream)) return submit(stream, std::move(work));
  if (work->width == 0) return hipSuccess;
  // Copies from host to host are done when the call returns, whatever the memory.
  const bool is_on_host = is_host_memory(work->dst.base) && is_host_memory(work->src.base);
  if (is_on_host || is_pageable(work->dst.base)) return execute(stream, std::move(work));
  if (is_pageable(work->src.base)) work->stage();
  return submit(stream, std::move(work));
}

}  // namespace cpu
