#include "runtime/vector_clock.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>

namespace cpu {
namespace {

using Lock = std::lock_guard<std::mutex>;
using Times = std::unordered_map<hipStream_t, uint64_t>;  // by stream: its last free that comes before

struct State {
  std::mutex mutex;
  std::unordered_map<hipStream_t, Times> streams;
  std::unordered_map<hipEvent_t, Times> events;
  std::atomic<bool> any_free{false};
};

State &state() {
  static State *instance = new State;
  return *instance;
}

bool idle() { return !state().any_free.load(std::memory_order_acquire); }

}  // namespace

uint64_t clock_tick(hipStream_t key) {
  Lock lock(state().mutex);
  state().any_free.store(true, std::memory_order_release);
  return ++state().streams[key][key];
}

void clock_recorded(hipEvent_t event, hipStream_t key) {
  if (idle()) return;
  Lock lock(state().mutex);
  const auto times = state().streams.find(key);
  if (times == state().streams.end()) state().events.erase(event);
  else state().events[event] = times->second;
}

void clock_waited(hipStream_t key, hipEvent_t event) {
  if (idle()) return;
  Lock lock(state().mutex);
  const auto times = state().events.find(event);
  if (times == state().events.end()) return;
  for (const auto &[other, time] : times->second) {
    uint64_t &known = state().streams[key][other];
    known = std::max(known, time);
  }
}

void clock_forget(hipEvent_t event) {
  if (idle()) return;
  Lock lock(state().mutex);
  state().events.erase(event);
}

void clock_forget(hipStream_t key) {
  if (idle()) return;
  Lock lock(state().mutex);
  state().streams.erase(key);
}

bool clock_is_before(hipStream_t freed_on, uint64_t tick, hipStream_t key) {
  if (freed_on == key) return true;
  Lock lock(state().mutex);
  const auto times = state().streams.find(key);
  if (times == state().streams.end()) return false;
  const auto time = times->second.find(freed_on);
  return time != times->second.end() && time->second >= tick;
}

}  // namespace cpu
