// The order of the threads of a kernel: what a thread did comes before what another does, if barriers, warp operations or
// fences with atomic operations lie between. Times are epochs.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "check/epochs.h"

namespace cpu {

constexpr unsigned kMostThreads = 1024;

// What somebody knows of a variable that threads pass their knowledge on through: so many of its releases. Each release adds an
// entry, and an acquire knows those so far.
struct Known {
  uint32_t variable;
  uint32_t count;
};
struct Release {
  // What few have.
  struct Rest {
    std::vector<uint32_t> of_lanes;  // the times of the lanes, where they differ
    std::vector<Known> known;
  };

  uint32_t block;
  uint16_t thread;                    // which releases
  bool within_block;                  // its fence orders the block's own threads only
  uint32_t time;                      // its own last one that it passes on,
  uint32_t of_warp;                   // those of its warp's lanes
  uint32_t of_block;                  // and those of all other threads
  uint32_t number = 0, previous = 0;  // how many came before it at its variable, and which release was the last of them
  std::unique_ptr<Rest> rest = nullptr;

  // Returns the last time of a thread of the block that it passes on.
  uint32_t time_of(unsigned other) const {
    if (other == thread) return time;
    if (other / kLanes != thread / kLanes) return of_block;
    return !rest || rest->of_lanes.empty() ? of_warp : rest->of_lanes[other % kLanes];
  }
};
// The releases of each block, and those with knowledge, of a variable that is asked about, which few are.
struct ReleaseList {
  std::unordered_map<uint32_t, std::vector<uint32_t>> of_block;
  std::vector<uint32_t> with_known;
  uint32_t count = 0;
};
struct SyncVariable {
  uint32_t count = 0, last = 0;  // its releases, and which was the last one
  mutable std::unique_ptr<ReleaseList> list;
};

// The variables of a kernel: that of the grid's barrier, which is the first, and one for each address. A kernel may have as many
// as threads, which come to addresses that follow each other.
class SyncVariables {
 public:
  static constexpr uint32_t kGrid = 0;

  void clear();
  // Returns the variable of an address.
  uint32_t at(uintptr_t address) {
    if (address % 4) return known(&between_[address]);
    if (address / kPage != recent_ || !page_) {
      recent_ = address / kPage;
      page_ = pages_[recent_].of_words;
    }
    return known(&page_[address % kPage / 4]);
  }
  SyncVariable &operator[](uint32_t variable) { return all_[variable]; }
  const SyncVariable &operator[](uint32_t variable) const { return all_[variable]; }

 private:
  static constexpr size_t kPage = 4096;
  struct Page {
    uint32_t of_words[kPage / 4] = {};  // 0 for those without
  };

  uint32_t known(uint32_t *variable) {
    if (!*variable) {
      *variable = static_cast<uint32_t>(all_.size());
      all_.emplace_back();
    }
    return *variable;
  }

  std::vector<SyncVariable> all_;
  std::unordered_map<uintptr_t, Page> pages_;        // by number
  std::unordered_map<uintptr_t, uint32_t> between_;  // of addresses within words
  uintptr_t recent_ = 0;
  uint32_t *page_ = nullptr;  // that of this number
};

class ThreadOrder {
 public:
  // The log gets the epochs of the kernel's blocks that this core executes.
  void begin_kernel(EpochLog *log, unsigned core);
  void begin_block(uint32_t block, unsigned threads);
  void barrier();
  // The block's threads are at the grid's barrier, behind one of their own; all blocks are, and know each other when they
  // begin again.
  void reach_grid();
  void pass_grid();
  void lanes(unsigned first, uint32_t set);
  void fence(unsigned thread, bool of_device);
  // An atomic operation on an address; with `release` or after a fence the thread passes on what it knows.
  void atomic(unsigned thread, uintptr_t address, bool writes, bool reads, bool releases);

  // Returns the number of a thread as it is now, which its accesses have.
  uint32_t self(unsigned thread) const { return time_[thread] * kLanes + thread % kLanes; }
  uint32_t block() const { return block_; }
  // All that the block's threads did before this epoch comes before what they do now.
  uint32_t phase() const { return phase_; }
  // From this epoch on all are this core's.
  uint32_t run() const { return runs_.back()->first; }
  // Returns whose an epoch of this core is, or null.
  const EpochLog::Owner *owner(uint32_t epoch) const;
  // Returns whether what a thread of a block did at a time comes before what a thread of this block does now.
  bool is_before(uint32_t block, unsigned of, uint32_t time, unsigned now) const {
    if (block == block_ && (of == now || time <= known_time(of, now))) return true;
    return (!of_block_.empty() || !of_thread_[now].empty()) && is_known(block, of, time, now);
  }

 private:
  // Returns the last time of a thread of this block that another one knows by barriers and warp operations.
  uint32_t known_time(unsigned of, unsigned now) const;
  bool is_known(uint32_t block, unsigned of, uint32_t time, unsigned now) const;
  bool is_in(const Known &known, uint32_t block, unsigned of, uint32_t time, int depth) const;
  void make_room(size_t epochs);
  uint32_t next_time(unsigned warp);
  void advance(unsigned thread) { time_[thread] = next_time(thread / kLanes); }
  void begin_phase();
  static void add(std::vector<Known> *all, const Known &one);
  void pass_on(uint32_t variable, Release release);
  const ReleaseList &list_of(const SyncVariable &variable) const;

  EpochLog *log_ = nullptr;
  unsigned core_ = 0;
  std::vector<EpochLog::Run *> runs_;  // this core's
  uint32_t block_ = 0, phase_ = 0;
  unsigned threads_ = 0;
  uint32_t time_[kMostThreads], fenced_[kMostThreads];
  bool fence_is_of_device_[kMostThreads];
  uint32_t warp_[kMostThreads / kLanes];  // the last time at which all lanes of a warp waited for each other
  bool has_lanes_[kMostThreads / kLanes];
  uint32_t lane_[kMostThreads][kLanes];  // of each thread: the times of its warp's lanes that it knows beside that
  std::vector<Known> of_thread_[kMostThreads], of_block_;
  std::vector<unsigned> knowing_;  // threads with knowledge of their own
  std::vector<Release> releases_;  // of all variables
  SyncVariables variables_;
  uint32_t passed_ = 0;  // the releases at the grid's barrier that all blocks know
};

}  // namespace cpu
