// The live objects of one kind behind opaque handles, shared by all threads.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "handles.h"

namespace cpu {

template <class Handle, class T>
class Registry {
 public:
  Handle add(std::shared_ptr<T> object) {
    const uint64_t id = next_handle();
    const std::lock_guard lock(lock_);
    live_.emplace(id, std::move(object));
    return reinterpret_cast<Handle>(static_cast<uintptr_t>(id));
  }
  std::shared_ptr<T> find(Handle handle) const {
    const std::shared_lock lock(lock_);
    const auto it = live_.find(reinterpret_cast<uintptr_t>(handle));
    return it == live_.end() ? nullptr : it->second;
  }
  // Returns null if the handle is not live. Of two threads that remove it one gets the object.
  std::shared_ptr<T> remove(Handle handle) {
    const std::lock_guard lock(lock_);
    const auto it = live_.find(reinterpret_cast<uintptr_t>(handle));
    if (it == live_.end()) return nullptr;
    std::shared_ptr<T> object = std::move(it->second);
    live_.erase(it);
    return object;
  }
  std::vector<Handle> handles() const {
    std::vector<Handle> all;
    const std::shared_lock lock(lock_);
    for (const auto &entry : live_) all.push_back(reinterpret_cast<Handle>(static_cast<uintptr_t>(entry.first)));
    return all;
  }

 private:
  mutable std::shared_mutex lock_;
  std::unordered_map<uintptr_t, std::shared_ptr<T>> live_;
};

}  // namespace cpu
