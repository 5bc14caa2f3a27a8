#include "runtime/scheduler.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <new>
#include <optional>
#include <system_error>
#include <thread>

#include "check/checks.h"
#include "fork.h"
#include "quirks/quirks.h"
#include "random.h"

namespace cpu {
namespace {

using std::chrono::microseconds;
using Clock = std::chrono::steady_clock;

// How long the device thread looks for work: long enough for the gaps of a program that keeps launching, short enough
// not to burn an idle core.
constexpr microseconds kDeviceSpin{80};
// A waiting thread shares the cores with the kernel that it waits for, so that it gives up sooner.
constexpr microseconds kHostSpin{20};
// How often to look at work that waits for a value in memory, whose change nobody announces.
constexpr microseconds kPoll{100};
// How late a host function comes when nothing overtakes it.
constexpr microseconds kLate{1000};
// How long an exiting process waits for a kernel that may never end.
constexpr std::chrono::seconds kStopPatience{2};

thread_local bool on_device_thread = false;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins until the condition holds or the time is over, and returns whether it held.
template <class Condition>
bool spin(microseconds time, Condition &&holds) {
  const auto end = Clock::now() + time;
  do {
    for (int i = 0; i < 32; ++i) {
      if (holds()) return true;
      relax();
    }
    // On a busy machine the thread that is waited for may need this very core.
    std::this_thread::yield();
  } while (Clock::now() < end);
  return holds();
}

// Takes the lock. It is never held for long, so that looking a few times is cheaper than to sleep for it at once.
void take(std::unique_lock<std::mutex> &lock) {
  for (int i = 0; i < 100; ++i) {
    if (lock.try_lock()) return;
    relax();
  }
  lock.lock();
}

// Returns whether a real device's context is gone after such a failure.
bool loses_device(hipError_t status) {
  switch (status) {
    case hipErrorIllegalAddress:
    case hipErrorLaunchTimeOut:
    case hipErrorAssert:
    case hipErrorLaunchFailure:
    case hipErrorECCNotCorrectable:
      return true;
    default:
      return false;
  }
}

hipError_t run_caught(Work &work) {
  try {
    return work.run();
  } catch (const std::bad_alloc &) {
    return hipErrorOutOfMemory;
  } catch (...) {
    return hipErrorUnknown;
  }
}

}  // namespace

// A host function under the quirk slow_completion. CLR runs it on a thread of its own when it learns of a marker, late
// and after what was queued behind it. Here it waits until its stream has gone on, or has been idle for a while.
struct Scheduler::LateWork : Work {
  LateWork(StreamPtr s, std::shared_ptr<Work> w)
      : Work(w->type), stream(std::move(s)), before(stream->pushed_), work(std::move(w)) {}
  hipError_t run() override { return work->run(); }
  void drop() override { work->drop(); }
  bool ready() const override;
  std::shared_ptr<Work> clone() const override { return nullptr; }  // never a node

  const StreamPtr stream;
  const uint64_t before;  // how many works of the stream come first
  const std::shared_ptr<Work> work;
  mutable std::optional<Clock::time_point> idle_since;
};

bool Scheduler::LateWork::ready() const {
  const uint64_t finished = stream->finished_.load(std::memory_order_acquire);
  if (finished > before) return true;
  if (finished < before || !stream->items_.empty()) return false;
  if (!idle_since) idle_since = Clock::now();
  return Clock::now() - *idle_since >= kLate;
}

Scheduler &Scheduler::get() {
  static Scheduler &scheduler = *new Scheduler;
  return scheduler;
}

Scheduler::Scheduler() {
  std::atexit([] { Scheduler::get().stop(); });
}

// Tells the work that it is queued and, while kernels are checked, returns what it comes after.
std::shared_ptr<Task> Scheduler::note_queued(Stream &stream, Work &work) {
  if (!is_checking()) return work.queued(), nullptr;
  const StreamKind kind = stream.legacy ? StreamKind::Legacy : stream.blocking() ? StreamKind::Blocking : StreamKind::Free;
  std::shared_ptr<Task> task = begin_task(&stream.checked_, kind, stream.device);
  work.queued();
  end_queueing(&stream.checked_, kind, stream.device, task);
  return task;
}

void Scheduler::append(const StreamPtr &stream, std::shared_ptr<Work> work) {
  std::shared_ptr<Task> task = note_queued(*stream, *work);
  stream->items_.push_back({std::move(work), ++order_, std::move(task)});
  if (stream->items_.size() == 1) active_.push_back(stream);
  ++stream->pushed_;
}

void Scheduler::append_late(const StreamPtr &stream, std::shared_ptr<Work> work) {
  if (!stream->late_) stream->late_ = std::make_shared<Stream>(stream->device, stream->flags, stream->priority, false);
  append(stream->late_, std::make_shared<LateWork>(stream, std::move(work)));
}

hipError_t Scheduler::push(const StreamPtr &stream, std::shared_ptr<Work> work) {
  if (const hipError_t error = lost(stream->device)) return error;
  std::unique_lock lock(lock_, std::defer_lock);
  take(lock);
  if (stopping_) return hipErrorDeinitialized;
  if (!started_) {
    try {
      std::thread([this] { loop(); }).detach();
    } catch (const std::system_error &) {
      return hipErrorOutOfMemory;  // the process may have no more threads now
    }
    started_ = true;
  }
  const bool is_late = quirk(Quirk::SlowCompletion) && work->type == hipGraphNodeTypeHost && !stream->legacy;
  if (is_late) append_late(stream, std::move(work));
  else append(stream, std::move(work));
  // Work behind other work of its stream is no news to the device thread.
  if (!is_late && stream->items_.size() > 1) return hipSuccess;
  pushes_.fetch_add(1, std::memory_order_release);
  lock.unlock();
  pushed_.notify_one();
  return hipSuccess;
}

hipError_t Scheduler::execute(const StreamPtr &stream, std::shared_ptr<Work> work) {
  // A callback that waits for its own thread would never return.
  if (on_device_thread) return hipErrorIllegalState;
  std::unique_lock lock(lock_);
  if (!active_.empty() || stopping_ || lost(stream->device)) {
    lock.unlock();
    const hipError_t error = push(stream, std::move(work));
    return error ? error : wait(stream);
  }
  append(stream, std::move(work));
  lent_ = true;
  run_front(lock, stream);
  lent_ = false;
  if (!active_.empty()) {
    pushes_.fetch_add(1, std::memory_order_release);
    pushed_.notify_one();
  }
  if (is_checking()) host_waited(stream->checked_.clock);
  const hipError_t error = take_error(stream);
  return lost(stream->device) ? lost(stream->device) : error;
}

void Scheduler::loop() {
  on_device_thread = true;
  std::unique_lock lock(lock_);
  while (!stopping_) {
    if (const StreamPtr stream = lent_ ? nullptr : pick()) {
      run_front(lock, stream);
    } else {
      idle(lock);
    }
  }
  stopped_ = true;
  finished_.notify_all();
}

// Returns whether the stream's first work may start. The null stream waits for earlier work of blocking streams, and
// they for earlier work of its: the order of submission decides.
bool Scheduler::may_start(const Stream &stream) const {
  if (!stream.legacy && !stream.blocking()) return true;
  const uint64_t order = stream.items_.front().order;
  return std::none_of(active_.begin(), active_.end(), [&](const StreamPtr &other) {
    return other->device == stream.device && (stream.legacy ? other->blocking() : other->legacy) &&
           other->items_.front().order < order;
  });
}

Scheduler::StreamPtr Scheduler::pick() {
  ready_.clear();
  for (const StreamPtr &stream : active_) {
    const bool lost = this->lost(stream->device) != hipSuccess;
    if (may_start(*stream) && (lost || stream->items_.front().work->ready())) ready_.push_back(stream);
  }
  if (ready_.empty()) return nullptr;
  return ready_.size() == 1 ? ready_[0] : ready_[random_below(static_cast<uint32_t>(ready_.size()))];
}

void Scheduler::run_front(std::unique_lock<std::mutex> &lock, const StreamPtr &stream) {
  std::shared_ptr<Work> work = std::move(stream->items_.front().work);
  if (is_checking()) running_task() = {std::move(stream->items_.front().task), 0, 0, nullptr};
  lock.unlock();
  hipError_t status = hipSuccess;
  if (lost(stream->device) == hipSuccess) {
    status = run_caught(*work);
  } else {
    work->drop();
  }
  // What the work holds is released before anybody learns that it is done.
  work.reset();
  take(lock);
  finish(stream, status);
}

void Scheduler::finish(const StreamPtr &stream, hipError_t status) {
  if (loses_device(status)) {
    hipError_t fine = hipSuccess;
    lost_[stream->device].compare_exchange_strong(fine, status);
  } else if (status != hipSuccess && stream->error_ == hipSuccess) {
    stream->error_ = status;
    failed_.push_back(stream);
  }
  stream->items_.pop_front();
  stream->finished_.fetch_add(1, std::memory_order_release);
  if (waiters_ > 0) finished_.notify_all();
  if (stream->items_.empty()) active_.erase(std::find(active_.begin(), active_.end(), stream));
}

void Scheduler::idle(std::unique_lock<std::mutex> &lock) {
  const uint64_t seen = pushes_.load(std::memory_order_acquire);
  const auto news = [&] { return pushes_.load(std::memory_order_acquire) != seen; };
  const bool blocked = !active_.empty();
  lock.unlock();
  const bool found = spin(blocked ? microseconds{5} : kDeviceSpin, news);
  lock.lock();
  if (found || stopping_) return;
  const auto wake = [&] { return news() || stopping_; };
  if (blocked) {
    pushed_.wait_for(lock, kPoll, wake);
  } else {
    pushed_.wait(lock, wake);
  }
}

template <class Belongs>
std::vector<Scheduler::Target> Scheduler::targets(Belongs &&belongs) {
  std::vector<Target> found;
  const std::lock_guard lock(lock_);
  for (const auto *streams : {&active_, &failed_}) {
    for (const StreamPtr &stream : *streams) {
      if (belongs(*stream)) found.push_back({stream, stream->pushed_});
    }
  }
  return found;
}

hipError_t Scheduler::take_error(const StreamPtr &stream) {
  const hipError_t error = stream->error_;
  if (error) failed_.erase(std::find(failed_.begin(), failed_.end(), stream));
  stream->error_ = hipSuccess;
  return error;
}

hipError_t Scheduler::block_until(const std::function<bool()> &holds) {
  if (holds()) return hipSuccess;
  if (on_device_thread) return hipErrorIllegalState;
  if (spin(kHostSpin, holds)) return hipSuccess;
  std::unique_lock lock(lock_);
  ++waiters_;
  finished_.wait(lock, [&] { return holds() || stopped_; });
  --waiters_;
  return holds() ? hipSuccess : hipErrorDeinitialized;
}

hipError_t Scheduler::poll_until(const std::function<bool()> &holds) {
  if (holds()) return hipSuccess;
  if (on_device_thread) return hipErrorIllegalState;
  while (!holds()) {
    std::this_thread::sleep_for(kPoll);
    const std::lock_guard lock(lock_);
    if (stopped_) return hipErrorDeinitialized;
  }
  return hipSuccess;
}

void Scheduler::announce() {
  const std::lock_guard lock(lock_);
  if (waiters_ > 0) finished_.notify_all();
}

hipError_t Scheduler::wait_for(const std::vector<Target> &targets) {
  hipError_t error = block_until([&] {
    return std::all_of(targets.begin(), targets.end(), [](const Target &target) {
      return target.stream->finished_.load(std::memory_order_acquire) >= target.count;
    });
  });
  const std::lock_guard lock(lock_);
  for (const Target &target : targets) {
    if (is_checking()) host_waited(target.stream->checked_.clock);
    const hipError_t own = take_error(target.stream);
    const hipError_t gone = lost(target.stream->device);
    if (error == hipSuccess) error = gone ? gone : own;
  }
  return error;
}

hipError_t Scheduler::wait(const StreamPtr &stream) {
  std::vector<Target> targets;
  {
    const std::lock_guard lock(lock_);
    targets.push_back({stream, stream->pushed_});
    if (stream->late_) targets.push_back({stream->late_, stream->late_->pushed_});
  }
  return wait_for(targets);
}

hipError_t Scheduler::wait_device(int device) {
  const hipError_t error = wait_for(targets([&](const Stream &stream) { return stream.device == device; }));
  if (is_checking()) host_waited_for_device(device);
  return error ? error : lost(device);
}

hipError_t Scheduler::wait_blocking(int device) {
  const hipError_t error = wait_for(targets(
      [&](const Stream &stream) { return stream.device == device && (stream.legacy || stream.blocking()); }));
  if (is_checking()) host_waited_for_blocking(device);
  return error ? error : lost(device);
}

hipError_t Scheduler::wait_all() {
  return wait_for(targets([](const Stream &) { return true; }));
}

hipError_t Scheduler::query(const StreamPtr &stream) {
  if (const hipError_t error = lost(stream->device)) return error;
  const std::lock_guard lock(lock_);
  const bool is_late = stream->late_ && !stream->late_->items_.empty();
  if (!stream->items_.empty() || is_late) return hipErrorNotReady;
  if (is_checking()) host_waited(stream->checked_.clock);
  return take_error(stream);
}

hipError_t Scheduler::query_blocking(int device) {
  if (const hipError_t error = lost(device)) return error;
  const std::lock_guard lock(lock_);
  const bool busy = std::any_of(active_.begin(), active_.end(), [&](const StreamPtr &stream) {
    return stream->device == device && (stream->legacy || stream->blocking());
  });
  if (!busy && is_checking()) host_waited_for_blocking(device);
  return busy ? hipErrorNotReady : hipSuccess;
}

void Scheduler::stop() {
  if (is_forked_from_user()) return;
  std::unique_lock lock(lock_);
  stopping_ = true;
  pushed_.notify_all();
  if (started_) finished_.wait_for(lock, kStopPatience, [&] { return stopped_; });
}

}  // namespace cpu
