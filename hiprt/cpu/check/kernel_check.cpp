#include "check/kernel_check.h"

#include <algorithm>
#include <utility>

#include "check/check_state.h"
#include "check/checks.h"
#include "check/cores.h"
#include "check/findings.h"
#include "check/races.h"
#include "check/report.h"
#include "check/shadow.h"
#include "check/streaks.h"

namespace cpu {
namespace {

// Notes that blocks may tell each other something. Most calls find it noted, and a read costs less than a write that all cores see.
void note_talk() {
  std::atomic<bool> &talk = state().blocks_talk;
  if (!talk.load(std::memory_order_relaxed)) talk = true;
}

// Returns the access of a thread of the block that runs.
uint64_t access_by(unsigned thread, uintptr_t pc) { return access_of(core().threads.self(thread), 15, false, pc); }

// Makes a range of shared memory new, or what no variable has. Small variables may share words.
void set_shared(uintptr_t begin, size_t size, bool is_usable) {
  for (uintptr_t word = begin & ~uintptr_t{3}; word < begin + size; word += 4) {
    const uintptr_t from = std::max(begin, word) - word, to = std::min(begin + size, word + 4) - word;
    const uint64_t bytes = ((1u << to) - 1) & ~((1u << from) - 1);
    Cell *cell = shadow_cell(word);
    const uint64_t others = usable(*cell) & ~bytes;
    cell[0] = {(others | (is_usable ? bytes : 0)) << kUsableShift, 0};
    cell[Page::kWords] = {};
  }
}

// Forgets what the block before did to the shared memory.
void begin_shared(uintptr_t base, const CheckedKernel &kernel) {
  std::vector<std::pair<size_t, size_t>> usable;
  for (const SharedPiece &piece : *kernel.pieces) usable.emplace_back(piece.offset, piece.size);
  usable.emplace_back(HIPRT_CPU_SHARED, kernel.dynamic_shared);
  if (core().usable_shared != usable) {
    for (const auto &[offset, size] : core().usable_shared) set_shared(base + offset, size, false);
    core().usable_shared = usable;
  }
  for (const auto &[offset, size] : usable) set_shared(base + offset, size, true);
}

}  // namespace

void begin_kernel(const CheckedKernel &kernel) {
  check_lock().lock();
  note_checked();
  before_shadow_changes(end_streaks);
  state().kernel = kernel;
  state().blocks_talk = false;
  LaunchRecord launch{};
  launch.name = kernel.name;
  std::copy(kernel.grid, kernel.grid + 3, launch.grid);
  std::copy(kernel.block, kernel.block + 3, launch.block);
  launch.is_kernel = true;
  launch.code = kernel.code;
  add_launch(std::move(launch));
  if (kernel.is_shared) share_shadow();
}

void enter_core(unsigned number) {
  this_core = number;
  core_context = &check_context();
  if (core().work == state().works) return;
  begin_checked_work();
  forget_streaks();
  if (state().kernel.is_shared) forget_recent_pages();
}

void leave_core() {
  end_row();
  core().shared = nullptr;
  core_context = nullptr;
  this_core = 0;
}

void begin_checked_block(const unsigned (&index)[3], const unsigned char *shared) {
  begin_shared(reinterpret_cast<uintptr_t>(shared), state().kernel);
  enter_checked_block(index, shared);
}

void enter_checked_block(const unsigned (&index)[3], const unsigned char *shared) {
  const CheckedKernel &kernel = state().kernel;
  core().shared = shared;
  begin_block_of(index[0] + kernel.grid[0] * (index[1] + kernel.grid[1] * index[2]),
                 kernel.block[0] * kernel.block[1] * kernel.block[2]);
}

void leave_checked_block() { core().threads.reach_grid(); }

void pass_checked_grid() { core().threads.pass_grid(); }

bool end_kernel() {
  CheckState &all = state();
  if (all.kernel.is_shared) {
    unshare_shadow(join_page);
    tell_unwritten_reads();
  }
  const bool talk = all.blocks_talk;
  check_lock().unlock();
  return talk;
}

void resume_thread(unsigned thread) {
  __hiprt_check &now = check_context();
  now.thread = thread;
  now.self = core().threads.self(thread);
}

void check_access(uintptr_t address, size_t size, unsigned kind, uintptr_t pc) {
  CheckState &all = state();
  CheckedCore &own = core();
  if (size == 0 || address - reinterpret_cast<uintptr_t>(all.kernel.arguments) < all.kernel.arguments_size) return;
  end_streaks_at(address, size);
  __hiprt_check &now = check_context();
  if (kind & kAtomic && checks(CheckKind::Race)) {
    if (kind & kReleases && !is_in_shared_memory(address)) note_talk();
    own.threads.atomic(now.thread, address, kind & kWrites, kind & kReads, kind & kReleases);
    now.self = own.threads.self(now.thread);
  }
  bool told = false;
  for (uintptr_t word = address & ~uintptr_t{3}; word < address + size; word += 4) {
    const size_t from = std::max(address, word) - word, to = std::min(address + size, word + 4) - word;
    const unsigned bytes = ((1u << to) - 1) & ~((1u << from) - 1);
    const uint64_t access = access_of(now.self, bytes, kind & kAtomic, pc);
    Cell *cell = shadow_cell(word);
    if (const unsigned missing = bytes & ~usable(*cell)) {
      return tell_unusable(word + unsigned(__builtin_ctz(missing)), size, kind, access);
    }
    if (const unsigned missing = kind & kReads ? bytes & ~written(*cell) : 0) {
      if (!told && checks(CheckKind::Init)) {
        const Unwritten read{word + unsigned(__builtin_ctz(missing)), size, access};
        if (all.kernel.is_shared && !is_in_shared_memory(address)) own.unwritten.push_back(read);
        else tell_unwritten(read);
      }
      told = true;
    }
    cell->write |= uint64_t{bytes} << kWrittenShift;
    if (checks(CheckKind::Race)) check_race(cell, cell + Page::kWords, access, kind & kWrites, word);
  }
}

void check_fence(bool of_device) {
  __hiprt_check &now = check_context();
  ThreadOrder &threads = core().threads;
  if (of_device) note_talk();
  threads.fence(now.thread, of_device);
  now.self = threads.self(now.thread);
}

void check_barrier(const std::vector<uintptr_t> &places) {
  if (!checks(CheckKind::Barrier)) return;
  const auto arrived = std::find_if(places.begin(), places.end(), [](uintptr_t place) { return place != 0; });
  const auto thread = static_cast<unsigned>(arrived - places.begin());
  const uint64_t stamp = access_by(thread, *arrived);
  const auto left = static_cast<size_t>(std::count(places.begin(), places.end(), uintptr_t{0}));
  if (left) {
    report({CheckKind::Barrier, std::to_string(left) + " of the block's " + std::to_string(places.size()) +
            " threads exited without coming to a barrier", 0, "", {involved(stamp, "a barrier is waited at")}, {}});
    return;
  }
  const std::string line = line_of(*arrived);
  for (unsigned other = thread + 1; other < places.size(); ++other) {
    if (places[other] == *arrived || line_of(places[other]) == line) continue;
    report({CheckKind::Barrier, "the threads of a block wait at different barriers", 0, "",
            {involved(stamp, "a barrier is waited at"),
             involved(access_by(other, places[other]), "another is waited at")}, {}});
    return;
  }
}

void order_block() {
  ThreadOrder &threads = core().threads;
  threads.barrier();
  __hiprt_check &now = check_context();
  now.block = std::max(now.block, threads.run() * kLanes);  // between runs lie epochs of other cores
  now.ordered = threads.phase() * kLanes - now.block;
}

void order_lanes(unsigned first, uint32_t lanes) { core().threads.lanes(first, lanes); }

void report_inactive_lane(unsigned thread, unsigned source, bool has_exited, uintptr_t pc) {
  if (!checks(CheckKind::Barrier)) return;
  const std::string why = has_exited ? " has exited or never was" : " takes no part";
  report({CheckKind::Barrier, "a lane reads the value of lane " + std::to_string(source) + ", which" + why, 0, "",
          {involved(access_by(thread, pc), "a shuffle is done")}, {}});
}

void note_own_memory() { note_talk(); }

void module_loaded(uintptr_t base, size_t size, const unsigned char *lines, size_t lines_size) {
  module_memory(base, size);
  const std::lock_guard<std::recursive_mutex> hold(check_lock());
  state().modules.push_back({base, size, LineTable(lines, lines_size)});
  state().told.clear();  // the addresses may have been another module's
}

void module_unloaded(uintptr_t base, size_t size) { module_memory_gone(base, size); }

}  // namespace cpu
