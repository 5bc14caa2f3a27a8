#include "runtime/stream.h"

#include <algorithm>
#include <array>

#include "graph/capture.h"
#include "registry.h"
#include "runtime/device.h"
#include "runtime/event.h"
#include "runtime/host_function.h"
#include "runtime/pool.h"
#include "runtime/scheduler.h"
#include "runtime/status.h"

namespace cpu {
namespace {

constexpr int kLowPriority = 1;
constexpr int kHighPriority = -1;

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

// The streams that hipStreamPerThread means in this thread; they go with it.
struct ThreadStreams {
  std::array<hipStream_t, kMaxDevices> handles{};
  ~ThreadStreams() {
    for (hipStream_t handle : handles) {
      if (handle && registry().remove(handle)) pool_stream_destroyed(handle);
    }
  }
};

hipStream_t thread_stream() {
  thread_local ThreadStreams streams;
  hipStream_t &handle = streams.handles[current_device()];
  if (!handle) handle = registry().add(std::make_shared<Stream>(current_device(), hipStreamDefault, 0, false));
  return handle;
}

struct CallbackWork : Work {
  CallbackWork(hipStream_t s, int on, hipStreamCallback_t c, void *d)
      : Work(hipGraphNodeTypeHost), stream(s), device(on), callback(c), data(d) {}
  hipError_t run() override {
    callback(stream, hipSuccess, data);
    return hipSuccess;
  }
  // Unlike a host function, a callback is told that the device is lost.
  void drop() override { callback(stream, Scheduler::get().lost(device), data); }
  std::shared_ptr<Work> clone() const override { return std::make_shared<CallbackWork>(*this); }

  hipStream_t stream;
  int device;
  hipStreamCallback_t callback;
  void *data;
};

hipError_t create(hipStream_t *out, unsigned flags, int priority) {
  if (!out || (flags != hipStreamDefault && flags != hipStreamNonBlocking)) return hipErrorInvalidValue;
  const int clamped = std::clamp(priority, kHighPriority, kLowPriority);
  *out = registry().add(std::make_shared<Stream>(current_device(), flags, clamped, false));
  return hipSuccess;
}

hipError_t destroy(hipStream_t stream) {
  if (is_legacy(stream) || stream == hipStreamPerThread || !registry().find(stream)) return hipErrorInvalidHandle;
  capture_stream_destroyed(stream);
  if (!registry().remove(stream)) return hipErrorInvalidHandle;
  pool_stream_destroyed(stream);
  return hipSuccess;
}

hipError_t wait_event(hipStream_t stream, hipEvent_t handle, unsigned flags) {
  if (flags != hipEventWaitDefault && flags != hipEventWaitExternal) return hipErrorInvalidValue;
  if (!is_valid(stream)) return hipErrorInvalidHandle;
  const std::shared_ptr<Event> event = find_event(handle);
  if (!event) return hipErrorInvalidHandle;
  const hipStream_t own = canonical(stream);
  hipError_t error = hipSuccess;
  if (capture_event_wait(own, handle, flags == hipEventWaitExternal, &error)) return error;
  if (!event->latest()) return hipSuccess;
  if ((error = submit(stream, std::make_shared<EventWaitWork>(event)))) return error;
  pool_event_waited(own, handle);
  return hipSuccess;
}

}  // namespace

std::shared_ptr<Stream> find_stream(hipStream_t stream) {
  if (is_legacy(stream)) return legacy_stream(current_device());
  return registry().find(canonical(stream));
}

bool is_legacy(hipStream_t stream) { return !stream || stream == hipStreamLegacy; }

hipStream_t canonical(hipStream_t stream) { return stream == hipStreamPerThread ? thread_stream() : stream; }

bool is_valid(hipStream_t stream) { return find_stream(stream) != nullptr; }

hipError_t submit(hipStream_t stream, std::shared_ptr<Work> work) {
  const std::shared_ptr<Stream> target = find_stream(stream);
  if (!target) return hipErrorInvalidHandle;
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
  if (!target) return hipErrorInvalidHandle;
  if (target->legacy) {
    if (const hipError_t error = capture_forbids_legacy()) return error;
  }
  return Scheduler::get().execute(target, std::move(work));
}

hipError_t enqueue(hipStream_t stream, std::shared_ptr<Work> work) {
  const std::shared_ptr<Stream> target = find_stream(stream);
  return target ? Scheduler::get().push(target, std::move(work)) : hipErrorInvalidHandle;
}

hipError_t wait(hipStream_t stream) {
  const std::shared_ptr<Stream> target = find_stream(stream);
  return target ? Scheduler::get().wait(target) : hipErrorInvalidHandle;
}

hipError_t wait_all() { return Scheduler::get().wait_all(); }

void destroy_streams(int device) {
  for (hipStream_t handle : registry().handles()) {
    const std::shared_ptr<Stream> stream = registry().find(handle);
    if (stream && stream->device == device) destroy(handle);
  }
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

// SplitMix64: any thread may draw, and one thread alone draws the same sequence every run.
uint32_t shuffle_next(uint32_t bound) {
  constexpr uint64_t kStep = 0x9E3779B97F4A7C15u;
  static std::atomic<uint64_t> state{flags().seed * kStep};
  uint64_t z = state.fetch_add(kStep, std::memory_order_relaxed) + kStep;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  z ^= z >> 31;
  return static_cast<uint32_t>(((z >> 32) * bound) >> 32);
}

}  // namespace cpu

using namespace cpu;

hipError_t hipStreamCreate(hipStream_t *stream) {
  return api([&] { return create(stream, hipStreamDefault, 0); });
}

hipError_t hipStreamCreateWithFlags(hipStream_t *stream, unsigned int flags) {
  return api([&] { return create(stream, flags, 0); });
}

hipError_t hipStreamCreateWithPriority(hipStream_t *stream, unsigned int flags, int priority) {
  return api([&] { return create(stream, flags, priority); });
}

hipError_t hipDeviceGetStreamPriorityRange(int *least, int *greatest) {
  return api([&] {
    if (least) *least = kLowPriority;
    if (greatest) *greatest = kHighPriority;
    return hipSuccess;
  });
}

hipError_t hipStreamDestroy(hipStream_t stream) {
  return api([&] { return destroy(stream); });
}

hipError_t hipStreamSynchronize(hipStream_t stream) {
  return api([&] {
    const std::shared_ptr<Stream> target = find_stream(stream);
    if (!target) return hipErrorInvalidHandle;
    if (const hipError_t error = capture_forbids_sync(canonical(stream))) return error;
    Scheduler &scheduler = Scheduler::get();
    const hipError_t error = target->legacy ? scheduler.wait_blocking(target->device) : scheduler.wait(target);
    pool_release_unused();
    return error;
  });
}

hipError_t hipStreamQuery(hipStream_t stream) {
  return api([&] {
    const std::shared_ptr<Stream> target = find_stream(stream);
    if (!target) return hipErrorInvalidHandle;
    if (const hipError_t error = capture_forbids_sync(canonical(stream))) return error;
    Scheduler &scheduler = Scheduler::get();
    return target->legacy ? scheduler.query_blocking(target->device) : scheduler.query(target);
  });
}

hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned int flags) {
  return api([&] { return wait_event(stream, event, flags); });
}

hipError_t hipStreamGetFlags(hipStream_t stream, unsigned int *flags) {
  return api([&] {
    const std::shared_ptr<Stream> target = find_stream(stream);
    if (!target) return hipErrorInvalidHandle;
    if (!flags) return hipErrorInvalidValue;
    *flags = target->flags;
    return hipSuccess;
  });
}

hipError_t hipStreamGetId(hipStream_t stream, unsigned long long *id) {
  return api([&] {
    const std::shared_ptr<Stream> target = find_stream(stream);
    if (!target) return hipErrorInvalidHandle;
    if (!id) return hipErrorInvalidValue;
    // Handles are numbers that are never used twice; null streams of several devices need telling apart.
    const auto number = reinterpret_cast<uintptr_t>(canonical(stream));
    *id = target->legacy ? static_cast<unsigned long long>(target->device) : number;
    return hipSuccess;
  });
}

hipError_t hipStreamGetPriority(hipStream_t stream, int *priority) {
  return api([&] {
    const std::shared_ptr<Stream> target = find_stream(stream);
    if (!target) return hipErrorInvalidHandle;
    if (!priority) return hipErrorInvalidValue;
    *priority = target->priority;
    return hipSuccess;
  });
}

hipError_t hipStreamGetDevice(hipStream_t stream, hipDevice_t *device) {
  return api([&] {
    const std::shared_ptr<Stream> target = find_stream(stream);
    if (!target) return hipErrorInvalidHandle;
    if (!device) return hipErrorInvalidValue;
    *device = target->device;
    return hipSuccess;
  });
}

int hipGetStreamDeviceId(hipStream_t stream) {
  const std::shared_ptr<Stream> target = find_stream(stream);
  return target ? target->device : -1;
}

hipError_t hipStreamAddCallback(hipStream_t stream, hipStreamCallback_t callback, void *data, unsigned int flags) {
  return api([&] {
    if (!callback || flags != 0) return hipErrorInvalidValue;
    const std::shared_ptr<Stream> target = find_stream(stream);
    if (!target) return hipErrorInvalidHandle;
    // HIP has no node for it: illegal wherever a synchronisation would be.
    if (const hipError_t error = capture_forbids_callback(canonical(stream))) return error;
    return enqueue(stream, std::make_shared<CallbackWork>(stream, target->device, callback, data));
  });
}

hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t fn, void *data) {
  return api([&] { return fn ? submit(stream, std::make_shared<HostWork>(fn, data)) : hipErrorInvalidValue; });
}
