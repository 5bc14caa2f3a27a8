#include "graph/capture_rules.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "graph/capture.h"
#include "quirks/quirks.h"
#include "runtime/device.h"
#include "runtime/event.h"
#include "runtime/stream.h"

namespace cpu {
namespace {

using Lock = std::lock_guard<std::mutex>;

thread_local hipStreamCaptureMode thread_mode = hipStreamCaptureModeGlobal;

// Invalidates every valid capture that the predicate names, and returns whether there was one.
bool invalidate_if(const std::function<bool(const Capture &)> &wanted) {
  bool any = false;
  for (const auto &capture : captures()) {
    if (!capture->listed || !capture->valid || !wanted(*capture)) continue;
    capture->valid = false;
    any = true;
  }
  return any;
}

// Does so as CLR's macros do (hip_internal.hpp:201-243): a capture counts until EndCapture, invalid or not, and only
// its origin stream is marked.
bool invalidate_origin_if(const std::function<bool(const Capture &)> &wanted) {
  bool any = false;
  for (const auto &capture : captures()) {
    if (!capture->listed || !wanted(*capture)) continue;
    capture->forks_go_on |= capture->valid;
    capture->valid = false;
    any = true;
  }
  return any;
}

bool all_captures(const Capture &) { return true; }

// Returns whether a capture forbids unsafe calls, by the rule of hipThreadExchangeStreamCaptureMode.
bool forbids_unsafe(const Capture &capture) {
  if (thread_mode == hipStreamCaptureModeRelaxed) return false;
  if (capture.thread == std::this_thread::get_id()) return capture.mode != hipStreamCaptureModeRelaxed;
  return thread_mode == hipStreamCaptureModeGlobal && capture.mode == hipStreamCaptureModeGlobal;
}

// Applies that rule as CLR does (hip_internal.hpp:201): other threads' captures count only if this thread has none.
bool invalidate_unsafe_as_clr() {
  if (thread_mode == hipStreamCaptureModeRelaxed) return false;
  const auto own = [](const Capture &capture) {
    return capture.mode != hipStreamCaptureModeRelaxed && capture.thread == std::this_thread::get_id();
  };
  const auto global = [](const Capture &capture) { return capture.mode == hipStreamCaptureModeGlobal; };
  if (invalidate_origin_if(own)) return true;
  return thread_mode == hipStreamCaptureModeGlobal && invalidate_origin_if(global);
}

// Returns whether the legacy stream would make a capturing stream of its device depend on it.
bool forbids_legacy(const Capture &capture) {
  return std::any_of(capture.members.begin(), capture.members.end(), [](const auto &entry) {
    return entry.second.blocking && entry.second.device == current_device();
  });
}

bool is_here(const Capture &capture) {
  return std::any_of(capture.members.begin(), capture.members.end(),
                     [](const auto &entry) { return entry.second.device == current_device(); });
}

}  // namespace

hipStreamCaptureMode exchange_thread_mode(hipStreamCaptureMode mode) { return std::exchange(thread_mode, mode); }

bool legacy_would_join() {
  const auto &all = captures();
  return std::any_of(all.begin(), all.end(), [](const auto &capture) { return forbids_legacy(*capture); });
}

hipError_t capture_forbids_alloc() {
  if (!any_capture()) return hipSuccess;
  Lock lock(graph_mutex());
  const bool forbidden =
      quirk(Quirk::CaptureMalloc900) ? invalidate_unsafe_as_clr() : invalidate_if(forbids_unsafe);
  return forbidden ? hipErrorStreamCaptureUnsupported : hipSuccess;
}

hipError_t capture_forbids_since_7() {
  return quirk(Quirk::CaptureHolesLt7) ? hipSuccess : capture_forbids_alloc();
}

hipError_t capture_forbids_callback(hipStream_t stream) {
  return quirk(Quirk::CaptureHolesLt7) ? hipSuccess : capture_forbids_sync(stream);
}

hipError_t capture_forbids_sync(hipStream_t stream) {
  if (!any_capture()) return hipSuccess;
  if (const hipError_t error = capture_forbids_on(stream)) return error;
  Lock lock(graph_mutex());
  if (is_legacy(stream) && invalidate_if(forbids_legacy)) return hipErrorStreamCaptureImplicit;
  return invalidate_if(forbids_unsafe) ? hipErrorStreamCaptureUnsupported : hipSuccess;
}

hipError_t capture_forbids_device_sync() {
  if (!any_capture()) return hipSuccess;
  Lock lock(graph_mutex());
  const bool forbidden = quirk(Quirk::CaptureDevsync900) ? invalidate_origin_if(all_captures) : invalidate_if(is_here);
  return forbidden ? hipErrorStreamCaptureUnsupported : hipSuccess;
}

hipError_t capture_forbids_implicit() {
  if (!any_capture()) return hipSuccess;
  Lock lock(graph_mutex());
  const auto forbids = [](const Capture &capture) { return forbids_legacy(capture) || forbids_unsafe(capture); };
  const bool forbidden =
      quirk(Quirk::CaptureSyncInvalidatesAll) ? invalidate_origin_if(all_captures) : invalidate_if(forbids);
  return forbidden ? hipErrorStreamCaptureImplicit : hipSuccess;
}

hipError_t capture_forbids_legacy() {
  if (!any_capture()) return hipSuccess;
  Lock lock(graph_mutex());
  return invalidate_if(forbids_legacy) ? hipErrorStreamCaptureImplicit : hipSuccess;
}

hipError_t capture_forbids_on(hipStream_t stream) {
  if (!any_capture()) return hipSuccess;
  Lock lock(graph_mutex());
  Capture *capture = capture_with(stream);
  if (!capture) return hipSuccess;
  if (!capture->accepts(stream)) return hipErrorStreamCaptureInvalidated;
  capture->valid = capture->forks_go_on = false;
  return hipErrorStreamCaptureUnsupported;
}

hipError_t capture_forbids_asking(const Event &event) {
  const hipStream_t stream = event.recorded_on;
  // CLR looks at the stream of the last recording, which may be freed memory by now (hip_event.cpp:432-470 of ROCm/clr
  // @f9f995c6d; checkEventCaptureRestrictions of ROCm/rocm-systems @06d4c70a). Whatever is found there: an active capture.
  if (quirk(Quirk::EventOfGoneStream) && !is_valid(stream)) return hipErrorCapturedEvent;
  if (!quirk(Quirk::EventOfCapturedStream) || !any_capture()) return hipSuccess;
  // Until 6.4 it does not ask whether the capture has recorded the event (the same lines of @f9f995c6d).
  Lock lock(graph_mutex());
  Capture *capture = capture_with(stream);
  if (!capture || !capture->accepts(stream)) return hipSuccess;
  capture->valid = capture->forks_go_on = false;
  return hipErrorCapturedEvent;
}

hipError_t capture_forbids_event(hipEvent_t event, bool query) {
  if (!any_capture() && !any_mark()) return hipSuccess;
  Lock lock(graph_mutex());
  if (const unsigned long long id = marked_by(event)) {
    invalidate_if([&](const Capture &capture) { return capture.id == id; });
    return hipErrorCapturedEvent;
  }
  if (query && quirk(Quirk::CaptureHolesLt7)) return hipSuccess;
  return invalidate_if(forbids_unsafe) ? hipErrorStreamCaptureUnsupported : hipSuccess;
}

}  // namespace cpu
