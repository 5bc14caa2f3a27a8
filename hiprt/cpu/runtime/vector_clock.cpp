#include "runtime/vector_clock.h"

#include <algorithm>

namespace cpu {

void Frees::add(hipStream_t stream, Flag free) {
  for (auto it = last_.begin(); it != last_.end();) it = *it->second ? last_.erase(it) : std::next(it);
  last_[stream] = std::move(free);
}

bool Frees::have_run() const {
  return std::all_of(last_.begin(), last_.end(), [](const auto &entry) { return entry.second->load(); });
}

uint64_t Clocks::tick(hipStream_t stream) { return ++streams_[stream][stream]; }

void Clocks::recorded(hipEvent_t event, hipStream_t stream) {
  const auto times = streams_.find(stream);
  if (times == streams_.end()) events_.erase(event);
  else events_[event] = times->second;
}

void Clocks::waited(hipStream_t stream, hipEvent_t event) {
  const auto times = events_.find(event);
  if (times == events_.end()) return;
  for (const auto &[other, time] : times->second) {
    uint64_t &known = streams_[stream][other];
    known = std::max(known, time);
  }
}

bool Clocks::is_before(hipStream_t freed_on, uint64_t tick, hipStream_t stream) const {
  if (freed_on == stream) return true;
  const auto times = streams_.find(stream);
  if (times == streams_.end()) return false;
  const auto time = times->second.find(freed_on);
  return time != times->second.end() && time->second >= tick;
}

}  // namespace cpu
