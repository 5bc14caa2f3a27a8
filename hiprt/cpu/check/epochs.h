// Epochs: the numbers by which accesses are told apart. A warp has one until something orders its threads with others, then
// the next; no two warps of any launch have the same.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

namespace cpu {

constexpr unsigned kLanes = 32;
constexpr uint32_t kMostEpochs = (1u << 27) - 1;

// The epochs of a launch and whose they are. Each core that executes its blocks has runs of its own.
class EpochLog {
 public:
  struct Owner {
    uint32_t block;  // its number in the grid
    uint32_t warp;
  };
  struct Run {
    uint32_t first;
    unsigned core;
    bool is_bounded;  // there are others beside it
    std::vector<Owner> owners;

    uint32_t end() const { return first + static_cast<uint32_t>(owners.size()); }
    bool has_room(size_t count) const { return !is_bounded || owners.size() + count <= kRun; }
    // Returns an epoch for a warp. There are so many that they end in no launch but one that runs for days; the last one
    // serves on then.
    uint32_t add(uint32_t block, uint32_t warp) {
      if (end() < kMostEpochs) owners.push_back({block, warp});
      return end() - 1;
    }
  };

  EpochLog(uint32_t first, bool is_shared) : first_(first), is_shared_(is_shared) {}

  // Returns a new run for a core; without `is_shared` there is one only. Cores may call this at the same time, and those below.
  Run *begin_run(unsigned core) {
    const std::lock_guard<std::mutex> hold(lock());
    const uint32_t first = runs_.empty() ? first_ : std::min(runs_.back().first + kRun, kMostEpochs);
    runs_.push_back({first, core, is_shared_, {}});
    return &runs_.back();
  }
  // Returns null if the epoch is none of these, or the owners are forgotten. What a core asks about is its own.
  const Run *run_of(uint32_t epoch) const {
    const std::lock_guard<std::mutex> hold(lock());
    const auto after = std::upper_bound(runs_.begin(), runs_.end(), epoch, [](uint32_t e, const Run &run) { return e < run.first; });
    return after == runs_.begin() ? nullptr : &*(after - 1);
  }
  const Owner *owner(uint32_t epoch) const {
    const Run *run = run_of(epoch);
    return run && epoch < run->end() ? &run->owners[epoch - run->first] : nullptr;
  }
  uint32_t first() const { return first_; }
  uint32_t end() const {
    const std::lock_guard<std::mutex> hold(lock());
    if (runs_.empty()) return first_ + forgotten_;
    return is_shared_ ? runs_.back().first + kRun : runs_.back().end();
  }
  size_t size() const {
    size_t count = 0;
    for (const Run &run : runs_) count += run.owners.size();
    return count;
  }
  // Frees the memory; the epochs stay this launch's.
  void forget_owners() {
    forgotten_ = end() - first_;
    std::deque<Run>().swap(runs_);
  }

 private:
  static constexpr uint32_t kRun = 1024;
  static std::mutex &lock() {
    static std::mutex &all = *new std::mutex;
    return all;
  }

  uint32_t first_, forgotten_ = 0;
  bool is_shared_;
  std::deque<Run> runs_;
};

}  // namespace cpu
