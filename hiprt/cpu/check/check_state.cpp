#include "check/check_state.h"

#include <algorithm>
#include <utility>

namespace cpu {
namespace {

constexpr size_t kLaunches = 4096;                // older ones count as finished
constexpr size_t kOwners = size_t{64} << 20 >> 3;  // of epochs: so many are kept for reports

}  // namespace

CheckState &state() {
  static CheckState &all = *new CheckState;
  return all;
}

CheckedCore &core() { return state().cores.own(); }

uint64_t access_of(uint32_t self, unsigned bytes, bool is_atomic, uintptr_t pc) {
  const uint64_t place = pc ? (pc - state().launches.back().code) / 2 & ((uint64_t{1} << kPlaceBits) - 1) : 0;
  return self | place << 32 | (is_atomic ? kAtomicBit : 0) | uint64_t{bytes} << kBytesShift;
}

const LaunchRecord *launch_of(uint32_t epoch) {
  const auto &all = state().launches;
  auto after = std::upper_bound(all.begin(), all.end(), epoch,
                                [](uint32_t value, const LaunchRecord &l) { return value < l.epochs.first(); });
  if (after == all.begin()) return nullptr;
  --after;
  return epoch < after->epochs.end() ? &*after : nullptr;
}

bool launch_is_before(uint32_t epoch) {
  CheckedCore &own = core();
  if (epoch >= own.asked_first && epoch < own.asked_end) return own.asked_is_before;
  const LaunchRecord *launch = launch_of(epoch);
  if (!launch) return true;
  own.asked_first = launch->epochs.first();
  own.asked_end = launch->epochs.end();
  return own.asked_is_before = is_before(launch->task, state().launches.back().task);
}

bool is_in_shared_memory(uintptr_t address) {
  const unsigned char *shared = core().shared;
  return shared && address - reinterpret_cast<uintptr_t>(shared) < kSharedRoom;
}

void add_launch(LaunchRecord launch) {
  CheckState &all = state();
  if (!all.launches.empty()) {
    const EpochLog &last = all.launches.back().epochs;
    all.owners += last.size();
    all.next_epoch = last.end();
  }
  if (all.next_epoch >= kMostEpochs / 2) {
    forget_accesses();
    all.launches.clear();
    all.next_epoch = 1, all.owners = all.next_to_forget = 0;
  }
  if (all.launches.size() >= kLaunches) {
    all.owners -= all.launches.front().epochs.size();
    all.launches.pop_front();
    if (all.next_to_forget) --all.next_to_forget;
  }
  while (all.owners > kOwners && all.next_to_forget < all.launches.size()) {
    EpochLog &old = all.launches[all.next_to_forget++].epochs;
    all.owners -= old.size();
    old.forget_owners();
  }
  launch.epochs = EpochLog(all.next_epoch, all.kernel.is_shared);
  launch.task = running_task();
  all.launches.push_back(std::move(launch));
  ++all.works;
  const LaunchRecord &running = all.launches.back();
  const auto first = std::find_if(all.launches.begin(), all.launches.end() - 1,
                                  [&](const LaunchRecord &l) { return !is_before(l.task, running.task); });
  all.before = first->epochs.first() * kLanes;
}

void begin_checked_work() {
  CheckState &all = state();
  CheckedCore &own = core();
  own.work = all.works;
  own.asked_first = own.asked_end = 0;
  own.threads.begin_kernel(&all.launches.back().epochs, this_core);
  __hiprt_check &now = check_context();
  now.before = all.before;
  now.code = all.launches.back().code;
}

void begin_block_of(uint32_t block, unsigned threads) {
  ThreadOrder &order = core().threads;
  order.begin_block(block, threads);
  __hiprt_check &now = check_context();
  now.first = now.block = order.phase() * kLanes;
  now.ordered = 0;
  now.thread = 0;
  now.self = order.self(0);
}

}  // namespace cpu
