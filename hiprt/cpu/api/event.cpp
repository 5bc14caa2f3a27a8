// HIP's functions of events.
#include "api/submit.h"
#include "check/checks.h"
#include "graph/capture.h"
#include "graph/capture_rules.h"
#include "runtime/event.h"
#include "runtime/pool.h"
#include "runtime/scheduler.h"
#include "runtime/status.h"
#include "runtime/stream.h"
#include "runtime/vector_clock.h"

namespace cpu {
namespace {

hipError_t create(hipEvent_t *out, unsigned flags) {
  constexpr unsigned kFences = hipEventReleaseToDevice | hipEventReleaseToSystem | hipEventDisableSystemFence;
  constexpr unsigned kKnown = hipEventBlockingSync | hipEventDisableTiming | hipEventInterprocess | kFences;
  if (!out || (flags & ~kKnown)) return hipErrorInvalidValue;
  if (__builtin_popcount(flags & kFences) > 1) return hipErrorInvalidValue;
  std::shared_ptr<SharedRecordings> shared;
  if (flags & hipEventInterprocess) {
    // Processes have no common clock.
    if (!(flags & hipEventDisableTiming)) return hipErrorInvalidValue;
    if (!(shared = SharedRecordings::make())) return hipErrorOutOfMemory;
  }
  *out = add_event(flags, std::move(shared));
  return hipSuccess;
}

hipError_t record(hipEvent_t handle, hipStream_t stream, unsigned flags) {
  if (flags != hipEventRecordDefault && flags != hipEventRecordExternal) return hipErrorInvalidValue;
  const std::shared_ptr<Event> event = find_event(handle);
  const std::shared_ptr<Stream> target = find_stream(stream);
  if (!event) return hipErrorInvalidHandle;
  if (!target) return no_such_handle();
  if (event->device != target->device) return hipErrorInvalidHandle;
  const hipStream_t own = canonical(stream);
  event->recorded_on = own;
  if (Capture *capture = target->capture.load(std::memory_order_acquire)) {
    return capture_event_record(capture, own, handle, flags == hipEventRecordExternal);
  }
  capture_event_forget(handle);
  if (const hipError_t error = submit(stream, std::make_shared<EventRecordWork>(event))) return error;
  clock_recorded(handle, stream_key(own));
  return hipSuccess;
}

hipError_t elapsed(float *ms, hipEvent_t start, hipEvent_t stop) {
  const std::shared_ptr<Event> first = find_event(start);
  const std::shared_ptr<Event> last = find_event(stop);
  if (!ms) return hipErrorInvalidValue;
  if (!first || !last || ((first->flags | last->flags) & hipEventDisableTiming)) return hipErrorInvalidHandle;
  if (first->device != last->device) return hipErrorInvalidHandle;
  for (hipEvent_t event : {start, stop}) {
    if (const hipError_t error = capture_forbids_event(event)) return error;
  }
  const std::shared_ptr<Recording> from = first->latest();
  const std::shared_ptr<Recording> to = last->latest();
  if (!from || !to) return hipErrorInvalidHandle;
  if (!from->is_reached() || !to->is_reached()) return hipErrorNotReady;
  *ms = static_cast<float>(static_cast<double>(static_cast<int64_t>(to->time_ns - from->time_ns)) * 1e-6);
  return hipSuccess;
}

}  // namespace
}  // namespace cpu

using namespace cpu;

hipError_t hipEventCreate(hipEvent_t *event) {
  return api([&] { return create(event, hipEventDefault); });
}

hipError_t hipEventCreateWithFlags(hipEvent_t *event, unsigned int flags) {
  return api([&] { return create(event, flags); });
}

hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) {
  return api([&] { return record(event, stream, hipEventRecordDefault); });
}

hipError_t hipEventRecordWithFlags(hipEvent_t event, hipStream_t stream, unsigned int flags) {
  return api([&] { return record(event, stream, flags); });
}

hipError_t hipEventSynchronize(hipEvent_t event) {
  return api([&] {
    const std::shared_ptr<Event> target = find_event(event);
    if (!target) return hipErrorInvalidHandle;
    if (const hipError_t error = capture_forbids_asking(*target)) return error;
    if (const hipError_t error = capture_forbids_event(event)) return error;
    const std::shared_ptr<Recording> recording = target->latest();
    const auto reached = [&] { return !recording || recording->is_reached(); };
    // Nobody announces what other processes do.
    const hipError_t error = target->shared ? Scheduler::get().poll_until(reached) : Scheduler::get().block_until(reached);
    if (recording && is_checking()) host_waited(recording->clock);
    pool_release_unused();
    return error ? error : Scheduler::get().lost(target->device);
  });
}

hipError_t hipEventQuery(hipEvent_t event) {
  return api([&] {
    const std::shared_ptr<Event> target = find_event(event);
    if (!target) return hipErrorInvalidHandle;
    if (const hipError_t error = capture_forbids_asking(*target)) return error;
    if (const hipError_t error = capture_forbids_event(event, true)) return error;
    const std::shared_ptr<Recording> recording = target->latest();
    if (recording && !recording->is_reached()) return hipErrorNotReady;
    if (recording && is_checking()) host_waited(recording->clock);
    return Scheduler::get().lost(target->device);
  });
}

hipError_t hipEventElapsedTime(float *ms, hipEvent_t start, hipEvent_t stop) {
  return api([&] { return elapsed(ms, start, stop); });
}

hipError_t hipEventDestroy(hipEvent_t event) {
  return api([&] {
    if (!remove_event(event)) return event ? no_such_handle() : hipErrorInvalidHandle;
    capture_event_forget(event);
    return hipSuccess;
  });
}
