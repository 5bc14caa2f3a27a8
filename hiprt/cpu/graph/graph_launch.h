// Graph launches: one launch of an executable graph is work on a stream.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "graph/plan.h"
#include "hip/hip_runtime_api.h"

namespace cpu {

// What a running launch knows of its steps.
struct Progress {
  std::vector<uint32_t> missing;  // by step: how many predecessors have not run
  std::vector<uint32_t> ready;
  std::vector<uint32_t> blocked;  // ready, but waiting for an event
};

struct Stream;  // runtime/scheduler.h

// What the launches of one executable graph share. They run one after the other.
struct Series {
  uint64_t queued = 0;  // launches queued so far; guarded by graph_mutex()
  std::atomic<uint64_t> finished{0};  // launches that are over
  Progress progress;  // of the running launch; its memory is used again

  // Kept for quirks by which a launch does not keep to what it was queued with.
  void publish(const std::shared_ptr<const Plan> &plan);
  std::shared_ptr<const Plan> latest() const;
  std::atomic<bool> destroyed{false};
  uint64_t newest = 0;  // the turn of the launch that began last; used by the device thread
  std::shared_ptr<Stream> side;  // guarded by graph_mutex()

 private:
  mutable std::mutex lock_;
  std::shared_ptr<const Plan> latest_;
};

// Queues one launch. While plan->launches is not 0, changes of the plan must be made on a copy.
hipError_t queue_launch(hipStream_t stream, const std::shared_ptr<const Order> &order,
                        const std::shared_ptr<Plan> &plan, const std::shared_ptr<Series> &series);

}  // namespace cpu
