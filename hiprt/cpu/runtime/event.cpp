#include "runtime/event.h"

#include <chrono>

#include "registry.h"
#include "quirks/quirks.h"
#include "runtime/device.h"
#include "runtime/scheduler.h"
#include "runtime/vector_clock.h"

namespace cpu {
namespace {

Registry<hipEvent_t, Event> &registry() {
  static auto &events = *new Registry<hipEvent_t, Event>;
  return events;
}

uint64_t now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

std::shared_ptr<Recording> pop(std::deque<std::shared_ptr<Recording>> &pending) {
  if (pending.empty()) return nullptr;
  std::shared_ptr<Recording> first = std::move(pending.front());
  pending.pop_front();
  return first;
}

}  // namespace

hipEvent_t add_event(unsigned flags, std::shared_ptr<SharedRecordings> shared) {
  return registry().add(std::make_shared<Event>(flags, current_device(), std::move(shared)));
}

bool remove_event(hipEvent_t event) {
  if (!registry().remove(event)) return false;
  clock_forget(event);
  return true;
}

std::shared_ptr<Event> find_event(hipEvent_t event) { return registry().find(event); }

void Recording::reach() {
  time_ns = now_ns();
  reached_.store(true, std::memory_order_release);
  if (shared) shared->reach(number);
}

// Up to 6.4 a recording never gets into the memory that processes share: IPCEvent's own form of it is for events with
// unrecorded_, which hipEventRecord does not set (hip_event_ipc.cpp:156 of ROCm/clr @f9f995c6d).
bool Recording::is_reached() const {
  if (shared && quirk(Quirk::IpcEventNeverWaits)) return true;
  return reached_.load(std::memory_order_acquire) || (shared && shared->is_reached(number));
}

std::shared_ptr<Recording> Event::renew() {
  auto recording = std::make_shared<Recording>();
  recording->shared = shared;
  const std::lock_guard lock(lock_);
  if (shared) recording->number = shared->begin();
  latest_ = recording;
  return recording;
}

std::shared_ptr<Recording> Event::latest() const {
  const std::lock_guard lock(lock_);
  if (const uint64_t number = shared ? shared->latest() : 0; number && (!latest_ || latest_->number < number)) {
    latest_ = std::make_shared<Recording>();
    latest_->shared = shared;
    latest_->number = number;
  }
  return latest_;
}

void EventRecordWork::queued() {
  const std::lock_guard lock(lock_);
  pending_.push_back(event->renew());
  if (const Task *task = queued_task()) pending_.back()->clock = task->clock;
}

hipError_t EventRecordWork::run() {
  std::shared_ptr<Recording> recording;
  {
    const std::lock_guard lock(lock_);
    recording = pop(pending_);
  }
  if (!recording) {
    recording = event->renew();
    if (running_task().task) recording->clock = running_task().task->clock;
  }
  recording->reach();
  Scheduler::get().announce();
  return hipSuccess;
}

void EventWaitWork::queued() {
  const std::lock_guard lock(lock_);
  pending_.push_back(event->latest());
  if (Task *task = queued_task(); task && pending_.back()) join(&task->clock, pending_.back()->clock);
}

bool EventWaitWork::ready() const {
  const std::lock_guard lock(lock_);
  return pending_.empty() || !pending_.front() || pending_.front()->is_reached();
}

hipError_t EventWaitWork::run() {
  const std::lock_guard lock(lock_);
  pop(pending_);
  return hipSuccess;
}

}  // namespace cpu
