// Which frees have run, and which are known to come before what a stream does next: vector clocks that events carry
// between streams.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>

#include "hip/hip_runtime_api.h"

namespace cpu {

using Flag = std::shared_ptr<std::atomic<bool>>;  // set when a free has run

// The frees of a block that its memory still waits for. Of several on one stream the last is enough.
class Frees {
 public:
  void add(hipStream_t stream, Flag free);
  bool have_run() const;

 private:
  std::map<hipStream_t, Flag> last_;
};

class Clocks {
 public:
  // Number the next free of a stream.
  uint64_t tick(hipStream_t stream);
  void recorded(hipEvent_t event, hipStream_t stream);
  void waited(hipStream_t stream, hipEvent_t event);
  void forget(hipEvent_t event) { events_.erase(event); }
  void forget(hipStream_t stream) { streams_.erase(stream); }
  // Whether a free comes before the next operation of a stream.
  bool is_before(hipStream_t freed_on, uint64_t tick, hipStream_t stream) const;

 private:
  using Times = std::unordered_map<hipStream_t, uint64_t>;  // by stream: its frees up to this one have happened
  std::unordered_map<hipStream_t, Times> streams_;
  std::unordered_map<hipEvent_t, Times> events_;
};

}  // namespace cpu
