// Work: one unit of what a device does, with its arguments by value. A stream queues it, and a graph's node holds it.
#pragma once

#include <memory>

#include "hip/hip_runtime_api.h"

namespace cpu {

struct Work {
  explicit Work(hipGraphNodeType t) : type(t) {}
  virtual ~Work() = default;
  // Called each time the work is queued, with the scheduler's lock held, which makes it a point in the order of all
  // submissions. A work that contains others (a graph launch) passes the call on.
  virtual void queued() {}
  // Runs on the device thread, one at a time. A failure becomes the stream's asynchronous error.
  virtual hipError_t run() = 0;
  // Called instead of run() once the device is lost (a kernel faulted). It releases what waits for this work.
  virtual void drop() {}
  // Returns false while the work cannot start, as an event that it waits for has not been reached. Called with the
  // scheduler's lock held.
  virtual bool ready() const { return true; }
  // Writes poison where run() would write its result. It returns false and does nothing if the work has no such result.
  virtual bool poison() const { return false; }
  // Returns a copy with arguments of its own, for clones of graphs and executable graphs; null for work that is never a
  // node.
  virtual std::shared_ptr<Work> clone() const = 0;

  const hipGraphNodeType type;
};

}  // namespace cpu
