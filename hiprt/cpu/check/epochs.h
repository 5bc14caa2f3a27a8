// Epochs: the numbers by which accesses are told apart. A warp has one until something orders its threads with others, then
// the next; no two warps of any launch have the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cpu {

constexpr unsigned kLanes = 32;
constexpr uint32_t kMostEpochs = (1u << 27) - 1;

// The epochs of a launch and whose they are.
class EpochLog {
 public:
  struct Owner {
    uint32_t block;  // its number in the grid
    uint32_t warp;
  };

  explicit EpochLog(uint32_t first) : first_(first) {}

  // Returns an epoch for a warp. There are so many that they end in no launch but one that runs for days; the last one
  // serves on then.
  uint32_t add(uint32_t block, uint32_t warp) {
    if (end() < kMostEpochs) owners_.push_back({block, warp});
    return end() - 1;
  }
  uint32_t first() const { return first_; }
  uint32_t end() const { return first_ + (owners_.empty() ? forgotten_ : static_cast<uint32_t>(owners_.size())); }
  size_t size() const { return owners_.size(); }
  // Returns null if the epoch is none of these, or the owners are forgotten.
  const Owner *owner(uint32_t epoch) const {
    return epoch - first_ < owners_.size() ? &owners_[epoch - first_] : nullptr;
  }
  // Frees the memory; the epochs stay this launch's.
  void forget_owners() {
    forgotten_ = end() - first_;
    std::vector<Owner>().swap(owners_);
  }

 private:
  uint32_t first_, forgotten_ = 0;
  std::vector<Owner> owners_;
};

}  // namespace cpu
