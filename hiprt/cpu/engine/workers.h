// The threads that execute blocks beside the device thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/runner.h"

namespace cpu {

class Workers {
 public:
  // As many as HIPRT_CPU_THREADS says, less the calling thread. Made at the first parallel launch, kept for the process.
  static Workers &get();

  // Execute the launch's blocks, `chunk` at a time, on the calling thread and on workers. wake: also on those that sleep.
  void run(Launch *launch, uint64_t chunk, bool wake);
  unsigned cores() const { return unsigned(runners_.size()); }

 private:
  Workers();
  void worker_main(Runner *runner);
  void take_blocks(Runner *runner);
  uint32_t wait_for_work(uint32_t seen);

  std::vector<std::unique_ptr<Runner>> runners_;  // the caller's, then one for each worker
  std::vector<std::thread> threads_;
  std::mutex lock_;
  // The launch being executed. Written while `open_` is false and nobody is `inside_`.
  Launch *launch_ = nullptr;
  uint64_t chunk_ = 1;
  alignas(64) std::atomic<uint64_t> next_{0};
  alignas(64) std::atomic<uint32_t> epoch_{0};  // counts launches; what sleepers watch
  std::atomic<uint32_t> sleepers_{0};
  alignas(64) std::atomic<uint32_t> inside_{0};
  std::atomic<bool> open_{false};
};

}  // namespace cpu
