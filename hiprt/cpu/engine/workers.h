// The worker threads, which execute blocks beside the device thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/runner.h"

namespace cpu {

class Workers {
 public:
  // Returns the workers: HIPRT_CPU_THREADS less one, for the calling thread, or as many as the process may have. They
  // are made at the first parallel launch and kept for the process.
  static Workers &get();

  // Executes the launch's blocks, `chunk` at a time, on the calling thread and on the workers that are awake; with
  // `wake`, also on those that sleep.
  void run(Launch *launch, uint64_t chunk, bool wake);
  unsigned cores() const { return unsigned(runners_.size()); }

 private:
  Workers();
  void worker_main(Runner *runner);
  void take_blocks(Runner *runner);
  uint32_t wait_for_work(uint32_t seen);

  std::vector<std::unique_ptr<Runner>> runners_;  // the calling thread's, then one for each worker
  std::mutex lock_;
  // The launch being executed. It is written while `open_` is false and no worker is inside (`inside_` is 0).
  Launch *launch_ = nullptr;
  alignas(64) std::atomic<uint32_t> epoch_{0};  // counts launches; sleeping workers wait for it to change
  std::atomic<uint32_t> sleepers_{0};
  alignas(64) std::atomic<uint32_t> inside_{0};
  std::atomic<bool> open_{false};
};

}  // namespace cpu
