// Events: points in a stream's work, and the times at which the device reached them.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "check/task_order.h"
#include "runtime/shared_recordings.h"
#include "runtime/work.h"

namespace cpu {

// One recording of an event. An event that is recorded again gets a new one, while waits keep the one they wait for.
struct Recording {
  // Marks the recording as reached, now.
  void reach();
  bool is_reached() const;

  uint64_t time_ns = 0;  // on the device thread's clock; read it of a recording that is reached
  TaskClock clock;       // what comes before it, while kernels are checked
  // Set if other processes see the event; one of them may have made this recording.
  std::shared_ptr<SharedRecordings> shared;
  uint64_t number = 0;  // among those of all processes

 private:
  std::atomic<bool> reached_{false};
};

// The event behind a handle.
struct Event {
  Event(unsigned f, int d, std::shared_ptr<SharedRecordings> s) : flags(f), device(d), shared(std::move(s)) {}
  // Makes a new recording, which later waits and queries mean.
  std::shared_ptr<Recording> renew();
  std::shared_ptr<Recording> latest() const;

  const unsigned flags;
  const int device;
  const std::shared_ptr<SharedRecordings> shared;  // null unless other processes see the event
  std::atomic<hipStream_t> recorded_on{nullptr};   // where it was recorded last, captured or not

 private:
  mutable std::mutex lock_;
  mutable std::shared_ptr<Recording> latest_;  // null until recorded
};

// Makes an event of the current device, with the recordings that other processes see, or null.
hipEvent_t add_event(unsigned flags, std::shared_ptr<SharedRecordings> shared);
// Ends the handle; queued waits keep the event. False if the handle is not live.
bool remove_event(hipEvent_t event);
// Returns the live event behind a handle, or null.
std::shared_ptr<Event> find_event(hipEvent_t event);

// Records an event. From queued() on the event means this recording. The work of a graph's node can be queued again
// before it has run.
struct EventRecordWork : Work {
  explicit EventRecordWork(std::shared_ptr<Event> e) : Work(hipGraphNodeTypeEventRecord), event(std::move(e)) {}
  void queued() override;
  hipError_t run() override;
  void drop() override { run(); }
  std::shared_ptr<Work> clone() const override { return std::make_shared<EventRecordWork>(event); }

  const std::shared_ptr<Event> event;

 private:
  std::mutex lock_;
  std::deque<std::shared_ptr<Recording>> pending_;
};

// Waits for the recording that is the event's latest at queued(), or for nothing if there is none.
struct EventWaitWork : Work {
  explicit EventWaitWork(std::shared_ptr<Event> e) : Work(hipGraphNodeTypeWaitEvent), event(std::move(e)) {}
  void queued() override;
  bool ready() const override;
  hipError_t run() override;
  void drop() override { run(); }
  std::shared_ptr<Work> clone() const override { return std::make_shared<EventWaitWork>(event); }

  const std::shared_ptr<Event> event;

 private:
  mutable std::mutex lock_;
  std::deque<std::shared_ptr<Recording>> pending_;
};

}  // namespace cpu
