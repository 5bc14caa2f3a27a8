#include "api/submit.h"

#include "graph/capture.h"
#include "runtime/scheduler.h"
#include "runtime/stream.h"

namespace cpu {

hipError_t submit(hipStream_t stream, std::shared_ptr<Work> work) {
  const std::shared_ptr<Stream> target = find_stream(stream);
  if (!target) return no_such_handle();
  if (Capture *capture = target->capture.load(std::memory_order_acquire)) {
    return capture_add(capture, canonical(stream), std::move(work));
  }
  if (target->legacy) {
    if (const hipError_t error = capture_forbids_legacy()) return error;
  }
  return Scheduler::get().push(target, std::move(work));
}

hipError_t execute(hipStream_t stream, std::shared_ptr<Work> work) {
  const std::shared_ptr<Stream> target = find_stream(stream);
  if (!target) return no_such_handle();
  if (target->legacy) {
    if (const hipError_t error = capture_forbids_legacy()) return error;
  }
  return Scheduler::get().execute(target, std::move(work));
}

}  // namespace cpu
