#include "runtime/event.h"

#include <chrono>

#include "registry.h"
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

hipEvent_t add_event(unsigned flags) { return registry().add(std::make_shared<Event>(flags, current_device())); }

bool remove_event(hipEvent_t event) {
  if (!registry().remove(event)) return false;
  clock_forget(event);
  return true;
}

std::shared_ptr<Event> find_event(hipEvent_t event) { return registry().find(event); }

std::shared_ptr<Recording> Event::renew() {
  auto recording = std::make_shared<Recording>();
  const std::lock_guard lock(lock_);
  latest_ = recording;
  return recording;
}

std::shared_ptr<Recording> Event::latest() const {
  const std::lock_guard lock(lock_);
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
  recording->time_ns = now_ns();
  recording->reached.store(true, std::memory_order_release);
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
  return pending_.empty() || !pending_.front() || pending_.front()->reached.load(std::memory_order_acquire);
}

hipError_t EventWaitWork::run() {
  const std::lock_guard lock(lock_);
  pop(pending_);
  return hipSuccess;
}

}  // namespace cpu
