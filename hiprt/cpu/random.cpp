#include "random.h"

#include <atomic>

#include "flags.h"

namespace cpu {

// This is SplitMix64. Any thread may draw, and a single thread draws the same sequence in every run.
uint32_t random_below(uint32_t bound) {
  constexpr uint64_t kStep = 0x9E3779B97F4A7C15u;
  static std::atomic<uint64_t> state{flags().seed * kStep};
  uint64_t z = state.fetch_add(kStep, std::memory_order_relaxed) + kStep;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  z ^= z >> 31;
  return static_cast<uint32_t>(((z >> 32) * bound) >> 32);
}

}  // namespace cpu
