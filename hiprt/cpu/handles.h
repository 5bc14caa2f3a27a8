// Opaque handles: numbers that are never used twice, so that a stale or foreign one is refused instead of followed.
// CLR's handles are addresses, which are used again; a handle whose owner says so (node_handle_reuse) is used again
// too.
#pragma once

#include <atomic>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace cpu {

// Returns a new number. All kinds of handles share one sequence, so that a handle of one kind is never valid as
// another.
inline uint64_t next_handle() {
  static std::atomic<uint64_t> last{0x1000};
  return last.fetch_add(1, std::memory_order_relaxed) << 4;
}

// The live objects of one kind. The owner guards it with a lock of its own.
template <class Handle, class T>
class Handles {
 public:
  Handle add(T *object) {
    const uint64_t id = take();
    live_.emplace(id, object);
    return to_handle(id);
  }
  T *find(Handle handle) const {
    const auto it = live_.find(reinterpret_cast<uintptr_t>(handle));
    return it == live_.end() ? nullptr : it->second;
  }
  void remove(Handle handle, bool may_return = false) {
    live_.erase(reinterpret_cast<uintptr_t>(handle));
    if (may_return) returned_.push_back(reinterpret_cast<uintptr_t>(handle));
  }

 private:
  uint64_t take() {
    if (returned_.empty()) return next_handle();
    const uint64_t id = returned_.back();
    returned_.pop_back();
    return id;
  }
  static Handle to_handle(uint64_t id) { return reinterpret_cast<Handle>(static_cast<uintptr_t>(id)); }
  std::unordered_map<uintptr_t, T *> live_;
  std::vector<uint64_t> returned_;
};

}  // namespace cpu
