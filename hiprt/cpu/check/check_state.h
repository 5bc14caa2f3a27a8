// What the checks of running kernels know: the works that ran, and what each core knows of the blocks that it executes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "check/checked_kernel.h"
#include "check/cores.h"
#include "check/epochs.h"
#include "check/line_table.h"
#include "check/shadow.h"
#include "check/task_order.h"
#include "check/thread_order.h"

namespace cpu {

constexpr size_t kSharedRoom = 2 * HIPRT_CPU_SHARED;

// A kernel that ran, or a copy or fill as a kernel of one thread.
struct LaunchRecord {
  std::string name;
  unsigned grid[3], block[3];
  bool is_kernel;
  uintptr_t code;  // where its module begins
  RunningTask task;
  EpochLog epochs{0, false};
};

struct CheckedModule {
  uintptr_t base;
  size_t size;
  LineTable lines;
};

// A read of a byte that was not written as far as the core knows that executes it.
struct Unwritten {
  uintptr_t address;
  size_t size;  // of the access
  uint64_t access;
};

// What a core knows of the blocks that it executes.
struct CheckedCore {
  uint64_t work = 0;  // the last one that it had a part in
  const unsigned char *shared = nullptr;  // the memory of the running block
  ThreadOrder threads;
  std::vector<std::pair<size_t, size_t>> usable_shared;  // offsets and sizes of what of the shared memory may be touched
  // The launch that was asked about last, as a range of epochs, and whether it comes before the one that runs.
  uint32_t asked_first = 0, asked_end = 0;
  bool asked_is_before = false;
  std::vector<Unwritten> unwritten;
};

// What all cores know. It changes between kernels, but for the last members.
struct CheckState {
  std::deque<LaunchRecord> launches;
  std::deque<CheckedModule> modules;
  uint64_t works = 0;
  uint32_t next_epoch = 1, before = 0;
  size_t owners = 0, next_to_forget = 0;  // of the launches before the last one
  CheckedKernel kernel;
  PerCore<CheckedCore> cores;
  std::atomic<bool> blocks_talk{false};
  std::mutex lock;
  std::set<std::tuple<CheckKind, uint64_t, uint64_t>> told;  // findings by places in the code, and what is accessed there
};

CheckState &state();
CheckedCore &core();
// An access to bytes of a word: a part of a cell and, for reports, the full place in the code.
uint64_t access_of(uint32_t self, unsigned bytes, bool is_atomic, uintptr_t pc);
// Returns the launch of an epoch, or null.
const LaunchRecord *launch_of(uint32_t epoch);
// Returns whether the launch of an epoch comes before the one that runs.
bool launch_is_before(uint32_t epoch);
// Returns whether an address is in the shared memory of the running block.
bool is_in_shared_memory(uintptr_t address);
// Gives the next work its epochs, and notes what comes before it.
void add_launch(LaunchRecord launch);
// Makes this core know what runs.
void begin_checked_work();
void begin_block_of(uint32_t block, unsigned threads);

}  // namespace cpu
