// HIP's functions of streams.
#include <algorithm>

#include "api/submit.h"
#include "graph/capture.h"
#include "graph/capture_rules.h"
#include "quirks/quirks.h"
#include "runtime/event.h"
#include "runtime/host_function.h"
#include "runtime/device.h"
#include "runtime/pool.h"
#include "runtime/properties.h"
#include "runtime/scheduler.h"
#include "runtime/status.h"
#include "runtime/stream.h"
#include "runtime/vector_clock.h"

namespace cpu {
namespace {

constexpr int kLowPriority = 1;
constexpr int kHighPriority = -1;

struct CallbackWork : Work {
  CallbackWork(hipStream_t s, int on, hipStreamCallback_t c, void *d)
      : Work(hipGraphNodeTypeHost), stream(s), device(on), callback(c), data(d) {}
  hipError_t run() override {
    callback(stream, hipSuccess, data);
    return hipSuccess;
  }
  // A callback, unlike a host function, is told that the device is lost.
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
  *out = add_stream(flags, clamped);
  return hipSuccess;
}

// Returns a mask of all compute units of the current device.
std::vector<uint32_t> all_units() {
  const auto count = static_cast<uint32_t>(properties(current_device()).multiProcessorCount);
  std::vector<uint32_t> mask(count / 32, UINT32_MAX);
  if (count % 32) mask.push_back((1u << count % 32) - 1);
  return mask;
}

hipError_t create_with_units(hipStream_t *out, uint32_t size, const uint32_t *mask) {
  if (!out) return hipErrorInvalidHandle;
  if (size == 0 || !mask) return hipErrorInvalidValue;
  *out = add_stream(hipStreamDefault, 0);
  find_stream(*out)->units.assign(mask, mask + size);
  return hipSuccess;
}

hipError_t give_units(hipStream_t stream, uint32_t size, uint32_t *out) {
  std::vector<uint32_t> mask = all_units();
  const std::shared_ptr<Stream> found = find_stream(stream);
  if (!out || size < mask.size()) return hipErrorInvalidValue;
  if (!found) return hipErrorContextIsDestroyed;
  std::vector<uint32_t> own = mask;
  for (size_t i = 0; i < own.size(); ++i) own[i] &= i < found->units.size() ? found->units[i] : 0;
  // A mask that leaves nothing is not obeyed.
  const bool any = std::any_of(own.begin(), own.end(), [](uint32_t word) { return word != 0; });
  std::copy_n((any ? own : mask).begin(), mask.size(), out);
  return hipSuccess;
}

hipError_t destroy(hipStream_t stream) {
  if (is_legacy(stream) || stream == hipStreamPerThread) return hipErrorInvalidHandle;
  if (!is_valid(stream)) return no_such_handle();
  capture_stream_destroyed(stream);
  return remove_stream(stream) ? hipSuccess : no_such_handle();
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
  clock_waited(stream_key(own), handle);
  return hipSuccess;
}

}  // namespace
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
    if (!target) return no_such_handle();
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
    if (!target) return no_such_handle();
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
    if (!target) return no_such_handle();
    // CLR gives none for the null stream (hip_stream.cpp:323 of ROCm/clr @f9f995c6d).
    if (!flags || (!stream && quirk(Quirk::CodesLt7))) return hipErrorInvalidValue;
    *flags = target->flags;
    return hipSuccess;
  });
}

hipError_t hipStreamGetId(hipStream_t stream, unsigned long long *id) {
  return api([&] {
    const std::shared_ptr<Stream> target = find_stream(stream);
    if (!target) return no_such_handle();
    if (!id) return hipErrorInvalidValue;
    // Handles are numbers that are never used twice. The null streams have none, and are told apart by their devices.
    const auto number = reinterpret_cast<uintptr_t>(canonical(stream));
    *id = target->legacy ? static_cast<unsigned long long>(target->device) : number;
    return hipSuccess;
  });
}

hipError_t hipStreamGetPriority(hipStream_t stream, int *priority) {
  return api([&] {
    const std::shared_ptr<Stream> target = find_stream(stream);
    if (!target) return no_such_handle();
    if (!priority) return hipErrorInvalidValue;
    *priority = target->priority;
    return hipSuccess;
  });
}

hipError_t hipStreamGetDevice(hipStream_t stream, hipDevice_t *device) {
  return api([&] {
    const std::shared_ptr<Stream> target = find_stream(stream);
    if (!target) return no_such_handle();
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
    if (!target) return no_such_handle();
    // HIP has no node for a callback, which is illegal wherever a synchronisation would be.
    if (const hipError_t error = capture_forbids_callback(canonical(stream))) return error;
    return enqueue(stream, std::make_shared<CallbackWork>(stream, target->device, callback, data));
  });
}

hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t fn, void *data) {
  return api([&] { return fn ? submit(stream, std::make_shared<HostWork>(fn, data)) : hipErrorInvalidValue; });
}

hipError_t hipExtStreamCreateWithCUMask(hipStream_t *stream, uint32_t cuMaskSize, const uint32_t *cuMask) {
  return api([&] { return create_with_units(stream, cuMaskSize, cuMask); });
}

hipError_t hipExtStreamGetCUMask(hipStream_t stream, uint32_t cuMaskSize, uint32_t *cuMask) {
  return api([&] { return give_units(stream, cuMaskSize, cuMask); });
}
