// The scheduler: its device thread takes work from the streams, in an order that HIP allows and the seed chooses, and
// runs it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "check/task_order.h"
#include "flags.h"
#include "runtime/work.h"

namespace cpu {

struct Capture;

// What a hipStream_t stands for. A destroyed stream lives on until its work is done.
struct Stream {
  Stream(int d, unsigned f, int p, bool l) : device(d), flags(f), priority(p), legacy(l) {}
  bool blocking() const { return !legacy && !(flags & hipStreamNonBlocking); }

  const int device;
  const unsigned flags;
  const int priority;  // only reported, because work is taken in random order to show missing dependencies
  const bool legacy;   // the null stream
  std::atomic<Capture *> capture{nullptr};
  std::vector<uint32_t> units;  // a mask of compute units, one bit each; only reported. Empty for all of them

 private:
  friend class Scheduler;
  struct Item {
    std::shared_ptr<Work> work;
    uint64_t order;  // the number of its submission among those of all streams
    std::shared_ptr<Task> task;  // what it comes after, while kernels are checked
  };
  // The scheduler's lock guards all but finished_. The running item stays in front.
  std::deque<Item> items_;
  uint64_t pushed_ = 0;
  std::atomic<uint64_t> finished_{0};
  hipError_t error_ = hipSuccess;  // the first asynchronous failure that no wait has returned yet
  StreamOrder checked_;            // what its next work comes after, while kernels are checked
  std::shared_ptr<Stream> late_;   // where this stream's host functions wait, with the quirk slow_completion
};

class Scheduler {
 public:
  // Returns the only one. It is never destroyed, because its thread may outlive static destructors.
  static Scheduler &get();

  // Queues work. If the device is lost, the result is its error.
  hipError_t push(const std::shared_ptr<Stream> &stream, std::shared_ptr<Work> work);
  // Queues a copy or fill and waits for it. The caller runs it itself if the device has nothing else to do, because a
  // change of threads costs more than most copies.
  hipError_t execute(const std::shared_ptr<Stream> &stream, std::shared_ptr<Work> work);
  // These block until everything queued so far is done, and return what went wrong on those streams.
  hipError_t wait(const std::shared_ptr<Stream> &stream);
  hipError_t wait_device(int device);
  hipError_t wait_blocking(int device);  // the null stream and all streams that synchronise with it
  hipError_t wait_all();
  // These return hipSuccess, hipErrorNotReady, or what went wrong.
  hipError_t query(const std::shared_ptr<Stream> &stream);
  hipError_t query_blocking(int device);

  // Blocks until the condition holds. The condition may depend on work only. Where it may come true before that work is
  // done, announce() must follow.
  hipError_t block_until(const std::function<bool()> &holds);
  void announce();
  // Blocks until a condition holds that may come true by itself.
  hipError_t poll_until(const std::function<bool()> &holds);

  // Returns the failure that lost the device, hipSuccess while it is fine.
  hipError_t lost(int device) const { return lost_[device].load(std::memory_order_acquire); }
  void revive(int device) { lost_[device].store(hipSuccess, std::memory_order_release); }

 private:
  using StreamPtr = std::shared_ptr<Stream>;
  struct Target {
    StreamPtr stream;
    uint64_t count;
  };
  struct LateWork;

  Scheduler();
  void loop();
  void append(const StreamPtr &stream, std::shared_ptr<Work> work);
  std::shared_ptr<Task> note_queued(Stream &stream, Work &work);
  void append_late(const StreamPtr &stream, std::shared_ptr<Work> work);
  void run_front(std::unique_lock<std::mutex> &lock, const StreamPtr &stream);
  void finish(const StreamPtr &stream, hipError_t status);
  void idle(std::unique_lock<std::mutex> &lock);
  void stop();
  StreamPtr pick();
  bool may_start(const Stream &stream) const;
  template <class Belongs>
  std::vector<Target> targets(Belongs &&belongs);
  hipError_t wait_for(const std::vector<Target> &targets);
  hipError_t take_error(const StreamPtr &stream);

  mutable std::mutex lock_;
  std::condition_variable pushed_;    // wakes the device thread
  std::condition_variable finished_;  // wakes threads that wait
  std::vector<StreamPtr> active_;     // streams with items
  std::vector<StreamPtr> failed_;     // streams with an error that nobody has fetched
  std::vector<StreamPtr> ready_;      // scratch of pick()
  uint64_t order_ = 0;
  int waiters_ = 0;
  bool started_ = false;
  bool lent_ = false;  // a thread in execute() is the device for a moment
  bool stopping_ = false;
  bool stopped_ = false;
  std::atomic<uint64_t> pushes_{0};  // counts pushes onto empty streams; the spinning device thread watches it
  std::atomic<hipError_t> lost_[kMaxDevices] = {};
};

}  // namespace cpu
