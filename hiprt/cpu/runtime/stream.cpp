#include "runtime/stream.h"

#include <array>

#include "fork.h"
#include "quirks/quirks.h"
#include "registry.h"
#include "runtime/device.h"
#include "runtime/scheduler.h"
#include "runtime/vector_clock.h"

namespace cpu {
namespace {

Registry<hipStream_t, Stream> &registry() {
  static auto &streams = *new Registry<hipStream_t, Stream>;
  return streams;
}

const std::shared_ptr<Stream> &legacy_stream(int device) {
  using All = std::array<std::shared_ptr<Stream>, kMaxDevices>;
  static const All &streams = *[] {
    auto *all = new All;
    for (int i = 0; i < kMaxDevices; ++i) (*all)[i] = std::make_shared<Stream>(i, hipStreamDefault, 0, true);
    return all;
  }();
  return streams[device];
}

// The streams that hipStreamPerThread means in this thread. They end with it.
struct ThreadStreams {
  std::array<hipStream_t, kMaxDevices> handles{};
  ~ThreadStreams() {
    if (is_forked_from_user()) return;
    for (hipStream_t handle : handles) {
      if (handle) remove_stream(handle);
    }
  }
};

hipStream_t thread_stream() {
  thread_local ThreadStreams streams;
  hipStream_t &handle = streams.handles[current_device()];
  if (!handle) handle = add_stream(hipStreamDefault, 0);
  return handle;
}

}  // namespace

hipStream_t add_stream(unsigned flags, int priority) {
  return registry().add(std::make_shared<Stream>(current_device(), flags, priority, false));
}

bool remove_stream(hipStream_t stream) {
  if (!registry().remove(stream)) return false;
  clock_forget(stream);
  return true;
}

std::vector<hipStream_t> streams_of(int device) {
  std::vector<hipStream_t> streams;
  for (hipStream_t handle : registry().handles()) {
    const std::shared_ptr<Stream> stream = registry().find(handle);
    if (stream && stream->device == device) streams.push_back(handle);
  }
  return streams;
}

std::shared_ptr<Stream> find_stream(hipStream_t stream) {
  if (is_legacy(stream)) return legacy_stream(current_device());
  return registry().find(canonical(stream));
}

bool is_legacy(hipStream_t stream) { return !stream || stream == hipStreamLegacy; }

hipStream_t canonical(hipStream_t stream) { return stream == hipStreamPerThread ? thread_stream() : stream; }

hipStream_t stream_key(hipStream_t stream) {
  if (!is_legacy(stream)) return canonical(stream);
  return reinterpret_cast<hipStream_t>(static_cast<uintptr_t>(current_device() + 1));
}

bool is_valid(hipStream_t stream) { return find_stream(stream) != nullptr; }

// Before HIP 7.0 a stream is looked for among those that live (hip_stream.cpp:351 of ROCm/clr @f9f995c6d), and so is the
// event that hipEventDestroy gets (hip_event.cpp:353). From 7.0 on the handle is followed wherever it leads.
hipError_t no_such_handle() {
  return quirk(Quirk::DestroyedHandle709) ? hipErrorContextIsDestroyed : hipErrorInvalidHandle;
}

hipError_t enqueue(hipStream_t stream, std::shared_ptr<Work> work) {
  const std::shared_ptr<Stream> target = find_stream(stream);
  return target ? Scheduler::get().push(target, std::move(work)) : no_such_handle();
}

Capture *capture_of(hipStream_t stream) {
  const std::shared_ptr<Stream> target = find_stream(stream);
  return target ? target->capture.load(std::memory_order_acquire) : nullptr;
}

void set_capture(hipStream_t stream, Capture *capture) {
  if (const std::shared_ptr<Stream> target = find_stream(stream)) {
    target->capture.store(capture, std::memory_order_release);
  }
}

}  // namespace cpu
