#include "check/task_order.h"

#include <algorithm>
#include <mutex>

#include "flags.h"

namespace cpu {
namespace {

constexpr size_t kMaxSteps = 8192;

struct State {
  std::mutex lock;
  uint32_t last_stream = 0;
  TaskClock host;
  TaskClock legacy[kMaxDevices], blocking[kMaxDevices];  // of the null stream; of the streams that wait for it
  TaskClock device[kMaxDevices];
  uint64_t graph_launches = 0;
};

State &state() {
  static State &all = *new State;
  return all;
}

thread_local Task *queued = nullptr;

}  // namespace

void join(TaskClock *clock, const TaskClock &other) {
  for (const auto &[stream, number] : other) {
    uint64_t &known = (*clock)[stream];
    known = std::max(known, number);
  }
}

std::shared_ptr<Task> begin_task(StreamOrder *order, StreamKind kind, int device) {
  State &all = state();
  const std::lock_guard<std::mutex> hold(all.lock);
  if (order->stream == 0) order->stream = ++all.last_stream;
  auto task = std::make_shared<Task>();
  task->stream = order->stream;
  task->clock = order->clock;
  task->number = ++task->clock[order->stream];
  join(&task->clock, all.host);
  if (kind == StreamKind::Blocking) join(&task->clock, all.legacy[device]);
  if (kind == StreamKind::Legacy) join(&task->clock, all.blocking[device]);
  queued = task.get();
  return task;
}

void end_queueing(StreamOrder *order, StreamKind kind, int device, const std::shared_ptr<Task> &task) {
  State &all = state();
  const std::lock_guard<std::mutex> hold(all.lock);
  queued = nullptr;
  order->clock = task->clock;
  join(&all.device[device], task->clock);
  if (kind == StreamKind::Blocking) join(&all.blocking[device], task->clock);
  if (kind == StreamKind::Legacy) join(&all.legacy[device], task->clock);
}

Task *queued_task() { return queued; }

void host_waited(const TaskClock &clock) {
  State &all = state();
  const std::lock_guard<std::mutex> hold(all.lock);
  join(&all.host, clock);
}

void host_waited_for_device(int device) {
  State &all = state();
  const std::lock_guard<std::mutex> hold(all.lock);
  join(&all.host, all.device[device]);
}

void host_waited_for_blocking(int device) {
  State &all = state();
  const std::lock_guard<std::mutex> hold(all.lock);
  join(&all.host, all.legacy[device]);
  join(&all.host, all.blocking[device]);
}

uint64_t new_graph_launch() {
  State &all = state();
  const std::lock_guard<std::mutex> hold(all.lock);
  return ++all.graph_launches;
}

std::shared_ptr<const StepOrder> order_steps(const std::vector<uint32_t> &first,
                                             const std::vector<uint32_t> &successors) {
  const size_t steps = first.size() - 1;
  if (steps > kMaxSteps) return nullptr;
  auto order = std::make_shared<StepOrder>();
  order->words = (steps + 63) / 64;
  order->bits.assign(steps * order->words, 0);
  std::vector<uint32_t> missing(steps, 0), ready;
  for (const uint32_t to : successors) ++missing[to];
  for (uint32_t i = 0; i < steps; ++i) {
    if (missing[i] == 0) ready.push_back(i);
  }
  while (!ready.empty()) {
    const uint32_t from = ready.back();
    ready.pop_back();
    for (uint32_t i = first[from]; i < first[from + 1]; ++i) {
      const uint32_t to = successors[i];
      for (size_t w = 0; w < order->words; ++w) order->bits[to * order->words + w] |= order->bits[from * order->words + w];
      order->bits[to * order->words + from / 64] |= uint64_t{1} << (from % 64);
      if (--missing[to] == 0) ready.push_back(to);
    }
  }
  return order;
}

RunningTask &running_task() {
  thread_local RunningTask running;
  return running;
}

bool is_before(const RunningTask &a, const RunningTask &b) {
  if (!a.task || !b.task) return true;
  if (a.launch && a.launch == b.launch) return a.step == b.step || !b.steps || b.steps->is_before(a.step, b.step);
  if (a.task == b.task) return true;
  const auto known = b.task->clock.find(a.task->stream);
  return known != b.task->clock.end() && known->second >= a.task->number;
}

}  // namespace cpu
