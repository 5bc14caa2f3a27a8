// One unit of device work with its arguments by value: what a stream queues and what a graph node holds.
#pragma once

#include <memory>

#include "hip/hip_runtime_api.h"

namespace cpu {

struct Work {
  explicit Work(hipGraphNodeType t) : type(t) {}
  virtual ~Work() = default;
  // Called each time it is queued, with the scheduler's lock held: a point in the order of all submissions. A work that
  // contains others (a graph launch) passes it on.
  virtual void queued() {}
  // Runs on the device thread, one at a time. A failure becomes the stream's asynchronous error.
  virtual hipError_t run() = 0;
  // Runs instead of run() once the device is lost (a kernel faulted): release what waits for this work.
  virtual void drop() {}
  // False while the work cannot start (an event it waits for has not been reached). Called with the scheduler's lock
  // held.
  virtual bool ready() const { return true; }
  // Writes poison where run() would write its result. False, and nothing is done, if the work has no such result.
  virtual bool poison() const { return false; }
  // A copy with arguments of its own, for graph clones and instantiated graphs.
  virtual std::shared_ptr<Work> clone() const = 0;

  const hipGraphNodeType type;
};

}  // namespace cpu
