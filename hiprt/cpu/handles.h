// Opaque handles: numbers that are never used twice, so that a stale or foreign one is found out instead of followed.
#pragma once

#include <atomic>
#include <cstdint>
#include <unordered_map>

namespace cpu {

// One sequence for all kinds, so that a handle of one kind is never valid as another.
inline uint64_t next_handle() {
  static std::atomic<uint64_t> last{0x1000};
  return last.fetch_add(1, std::memory_order_relaxed) << 4;
}

// The live objects of one kind. Not synchronised: the owner has a lock.
template <class Handle, class T>
class Handles {
 public:
  Handle add(T *object) {
    const uint64_t id = next_handle();
    live_.emplace(id, object);
    return to_handle(id);
  }
  T *find(Handle handle) const {
    const auto it = live_.find(reinterpret_cast<uintptr_t>(handle));
    return it == live_.end() ? nullptr : it->second;
  }
  void remove(Handle handle) { live_.erase(reinterpret_cast<uintptr_t>(handle)); }

 private:
  static Handle to_handle(uint64_t id) { return reinterpret_cast<Handle>(static_cast<uintptr_t>(id)); }
  std::unordered_map<uintptr_t, T *> live_;
};

}  // namespace cpu
