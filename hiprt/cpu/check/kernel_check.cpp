#include "check/kernel_check.h"

#include <cxxabi.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <tuple>
#include <utility>

#include "check/checks.h"
#include "check/cores.h"
#include "check/epochs.h"
#include "check/line_table.h"
#include "check/report.h"
#include "check/shadow.h"
#include "check/streaks.h"
#include "check/task_order.h"
#include "check/thread_order.h"

namespace cpu {
namespace {

constexpr size_t kLaunches = 4096;                // older ones count as finished
constexpr size_t kOwners = size_t{64} << 20 >> 3;  // of epochs: so many are kept for reports
constexpr size_t kSharedRoom = 2 * HIPRT_CPU_SHARED;

// A kernel that ran, or a copy or fill as a kernel of one thread.
struct Launch {
  std::string name;
  unsigned grid[3], block[3];
  bool is_kernel;
  uintptr_t code;  // where its module begins
  RunningTask task;
  EpochLog epochs{0, false};
};

struct Module {
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
struct Core {
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
struct State {
  std::deque<Launch> launches;
  std::deque<Module> modules;
  uint64_t works = 0;
  uint32_t next_epoch = 1, before = 0;
  size_t owners = 0, next_to_forget = 0;  // of the launches before the last one
  CheckedKernel kernel;
  PerCore<Core> cores;
  std::atomic<bool> blocks_talk{false};
  std::mutex lock;
  std::set<std::tuple<CheckKind, uint64_t, uint64_t>> told;  // findings by places in the code, and what is accessed there
};

State &state() {
  static State &all = *new State;
  return all;
}

Core &core() { return state().cores.own(); }

// An access to bytes of a word: a part of a cell and, for reports, the full place in the code.
uint64_t access_of(uint32_t self, unsigned bytes, bool is_atomic, uintptr_t pc) {
  const uint64_t place = pc ? (pc - state().launches.back().code) / 2 & ((uint64_t{1} << kPlaceBits) - 1) : 0;
  return self | place << 32 | (is_atomic ? kAtomicBit : 0) | uint64_t{bytes} << kBytesShift;
}

std::string line_of(uintptr_t pc) {
  for (auto m = state().modules.rbegin(); m != state().modules.rend(); ++m) {
    if (pc - m->base < m->size) return m->lines.at(pc - 1 - m->base);
  }
  return "";
}

std::string readable(const std::string &name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void *)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : name;
}

const Launch *launch_of(uint32_t epoch) {
  const auto &all = state().launches;
  auto after = std::upper_bound(all.begin(), all.end(), epoch,
                                [](uint32_t value, const Launch &l) { return value < l.epochs.first(); });
  if (after == all.begin()) return nullptr;
  --after;
  return epoch < after->epochs.end() ? &*after : nullptr;
}

Involved involved(uint64_t access, const std::string &what) {
  Involved out;
  out.what = what;
  const uint32_t epoch = who(access) / kLanes;
  const Launch *launch = launch_of(epoch);
  if (!launch) {
    out.kernel = "a work long ago";
    return out;
  }
  const uint64_t place = access >> 32 & ((uint64_t{1} << kPlaceBits) - 1);
  out.line = place ? line_of(launch->code + 2 * place) : "";
  out.kernel = readable(launch->name);
  out.is_kernel = launch->is_kernel;
  if (const Task *task = launch->task.task.get()) {
    out.work = "work " + std::to_string(task->number) + " of stream " + std::to_string(task->stream);
    if (launch->task.launch) out.work += ", step " + std::to_string(launch->task.step) + " of its graph";
  }
  const EpochLog::Owner *owner = launch->epochs.owner(epoch);
  if (!owner) return out;
  out.has_thread = launch->is_kernel;
  out.lane = who(access) % kLanes;
  const unsigned thread = owner->warp * kLanes + out.lane;
  out.block[0] = owner->block % launch->grid[0], out.block[1] = owner->block / launch->grid[0] % launch->grid[1];
  out.block[2] = owner->block / launch->grid[0] / launch->grid[1];
  out.thread[0] = thread % launch->block[0], out.thread[1] = thread / launch->block[0] % launch->block[1];
  out.thread[2] = thread / launch->block[0] / launch->block[1];
  return out;
}

// Returns the access of a thread of the block that runs.
uint64_t access_by(unsigned thread, uintptr_t pc) { return access_of(core().threads.self(thread), 15, false, pc); }

bool launch_is_before(uint32_t epoch) {
  Core &own = core();
  if (epoch >= own.asked_first && epoch < own.asked_end) return own.asked_is_before;
  const Launch *launch = launch_of(epoch);
  if (!launch) return true;
  own.asked_first = launch->epochs.first();
  own.asked_end = launch->epochs.end();
  return own.asked_is_before = is_before(launch->task, state().launches.back().task);
}

bool is_ordered(uint64_t before) {
  const __hiprt_check &now = check_context();
  const uint32_t other = who(before);
  if (other < now.before || other - now.block < now.ordered || other == now.self) return true;
  const ThreadOrder &threads = core().threads;
  const EpochLog::Owner *owner = threads.owner(other / kLanes);
  if (!owner) return launch_is_before(other / kLanes);
  const unsigned thread = owner->warp * kLanes + other % kLanes;
  return threads.is_before(owner->block, thread, other / kLanes, now.thread);
}

std::string count_of(size_t bytes) { return std::to_string(bytes) + (bytes == 1 ? " byte is " : " bytes are "); }

std::string what_of(size_t size, unsigned kind) {
  const std::string atomic = kind & kAtomic ? "atomically " : "";
  return count_of(size) + atomic + (kind & kWrites ? "written" : "read");
}

bool is_shared(uintptr_t address) {
  const unsigned char *shared = core().shared;
  return shared && address - reinterpret_cast<uintptr_t>(shared) < kSharedRoom;
}

std::string shared_at(size_t offset) {
  const CheckedKernel &kernel = state().kernel;
  if (offset >= HIPRT_CPU_SHARED) {
    return "byte " + std::to_string(offset - HIPRT_CPU_SHARED) + " of the block's dynamic shared memory of " +
           std::to_string(kernel.dynamic_shared) + " bytes";
  }
  const SharedPiece *nearest = nullptr;
  for (const SharedPiece &piece : *kernel.pieces) {
    if (piece.offset <= offset && (!nearest || piece.offset > nearest->offset)) nearest = &piece;
  }
  if (!nearest) return "byte " + std::to_string(offset) + " of the block's shared memory";
  return "byte " + std::to_string(offset - nearest->offset) + " of shared variable '" + readable(nearest->name) + "' of " +
         std::to_string(nearest->size) + " bytes";
}

std::string buffer_of(uintptr_t address) {
  if (is_shared(address)) return shared_at(address - reinterpret_cast<uintptr_t>(core().shared));
  char text[256];
  const MemoryAt memory = memory_at(address);
  if (!memory.found) {
    std::snprintf(text, sizeof text, "address 0x%zx, where there is no memory of the device", static_cast<size_t>(address));
  } else {
    std::snprintf(text, sizeof text, "address 0x%zx, byte %zu of a buffer of %zu bytes at 0x%zx%s",
                  static_cast<size_t>(address), static_cast<size_t>(address - memory.base), memory.size,
                  static_cast<size_t>(memory.base), memory.freed ? " that was freed" : "");
  }
  return text;
}

void tell(CheckKind kind, const std::string &text, uintptr_t address, std::vector<Involved> all) {
  Finding finding{kind, text, address, buffer_of(address), std::move(all), {}};
  if (!is_shared(address)) {
    const MemoryAt memory = memory_at(address);
    for (const std::string &stack : {memory.taken, memory.given_back}) {
      if (!stack.empty()) finding.stacks.push_back(stack);
    }
  }
  report(finding);
}

// Returns the place in the code of an access, 0 if it has none.
uint64_t place_of(uint64_t access) {
  const Launch *launch = launch_of(who(access) / kLanes);
  const uint64_t place = access >> 32 & ((uint64_t{1} << kPlaceBits) - 1);
  return launch && launch->is_kernel && place ? launch->code + 2 * place : 0;
}

// Returns whether nothing was told of places in the code before. Reports compare lines, which takes so long that each of
// thousands of threads must not do it.
bool is_new(CheckKind kind, uint64_t place, uint64_t other) {
  if (!place || !other) return true;
  const std::lock_guard<std::mutex> hold(state().lock);
  return state().told.insert({kind, place, other}).second;
}

void tell_race(uint64_t later, uint64_t before, bool later_writes, bool before_wrote, uintptr_t word) {
  const EpochLog &running = state().launches.back().epochs;
  const EpochLog::Owner *own = running.owner(who(later) / kLanes), *other = running.owner(who(before) / kLanes);
  const bool are_of_a_block = own && other && own->block == other->block;
  // What blocks tell each other while they run side by side may order them, which no core knows.
  if (state().kernel.is_shared && other && !are_of_a_block && state().blocks_talk) return;
  if (!is_new(CheckKind::Race, place_of(later), place_of(before))) return;
  const auto bytes = [](uint64_t access) { return static_cast<size_t>(__builtin_popcount(bytes_of(access))); };
  const auto kind = [](uint64_t access, bool writes) { return (writes ? kWrites : kReads) | (access & kAtomicBit ? kAtomic : 0u); };
  const unsigned common = bytes_of(later) & bytes_of(before);
  const std::string which = are_of_a_block ? "two threads of a block" : "two threads";
  tell(CheckKind::Race, which + " touch the same memory and nothing orders them", word + unsigned(__builtin_ctz(common)),
       {involved(later, what_of(bytes(later), kind(later, later_writes))),
        involved(before, what_of(bytes(before), kind(before, before_wrote)))});
}

// Notes a read. Of readers that nothing orders two are kept, of different warps if there are such.
void note_read(Cell *cell, Cell *second, uint64_t access) {
  const uint64_t last = cell->read & ~kStates, flags = cell->read & kStates, more = access & kAtomicBit ? kMoreBit : 0;
  if (who(last) == who(access) && (last & kAtomicBit) == (access & kAtomicBit)) {
    cell->read |= access & uint64_t{15} << kBytesShift;
  } else if (is_ordered(last)) {
    cell->read = access | flags | more;
  } else {
    const uint64_t other = flags & kReadersBit ? second->read : 0;
    const bool in_a_warp = who(other) / kLanes == who(last) / kLanes, apart = who(access) / kLanes != who(last) / kLanes;
    if (is_ordered(other) || (in_a_warp && apart) || (other & kAtomicBit && !(access & kAtomicBit))) {
      second->read = access;
      cell->read |= kReadersBit | more;
    }
  }
}

void note_write(Cell *cell, Cell *second, uint64_t access) {
  if (access & kAtomicBit) {
    second->write = access;
    cell->read |= kMoreBit;
    return;
  }
  const uint64_t states = cell->write & kStates, last = cell->write & ~kStates;
  const unsigned rest = bytes_of(last) & ~bytes_of(access);
  const bool is_own = who(last) == who(access);
  const bool has_atomic = (cell->read | (cell->read & kReadersBit ? second->read : 0)) & kAtomicBit;
  second->write = rest && !is_own ? last : 0;
  cell->read = (cell->read & ~kMoreBit) | (second->write || has_atomic ? kMoreBit : 0);
  cell->write = states | access | (is_own ? uint64_t{rest} << kBytesShift : 0);
}

// Holds an access against the last ones of the word and notes it.
void check_race(Cell *cell, Cell *second, uint64_t access, bool writes, uintptr_t address) {
  const auto conflicts = [&](uint64_t before) {
    return who(before) && bytes_of(before) & bytes_of(access) && !(before & access & kAtomicBit) && !is_ordered(before);
  };
  for (const uint64_t before : {cell->write & ~kStates, second->write}) {
    if (conflicts(before)) return tell_race(access, before, writes, true, address);
  }
  const uint64_t reads[] = {cell->read & ~kStates, cell->read & kReadersBit ? second->read : 0};
  // Whoever comes later need not look again at a write that comes before this work.
  const bool has_atomic = (reads[0] | reads[1]) & kAtomicBit;
  if (!has_atomic && who(second->write) < check_context().before) second->write = 0, cell->read &= ~kMoreBit;
  if (!writes) return note_read(cell, second, access);
  for (const uint64_t before : reads) {
    if (conflicts(before)) return tell_race(access, before, true, false, address);
  }
  note_write(cell, second, access);
}

// Tells of an access to bytes that must not be touched.
void tell_unusable(uintptr_t address, size_t size, unsigned kind, uint64_t access) {
  if (!checks(CheckKind::Memory) || !is_new(CheckKind::Memory, place_of(access), size << 5 | kind)) return;
  const char *text = "memory that belongs to no buffer is touched";
  if (is_shared(address)) text = "shared memory that the block does not have is touched";
  else if (memory_at(address).freed) text = "freed memory is touched";
  tell(CheckKind::Memory, text, address, {involved(access, what_of(size, kind))});
}

// Tells of a read of a byte that was never written.
void tell_unwritten(const Unwritten &read) {
  if (!is_new(CheckKind::Init, place_of(read.access), read.size)) return;
  const char *text = is_shared(read.address) ? "shared memory that the block never wrote is read" : "memory that was never written is read";
  tell(CheckKind::Init, text, read.address, {involved(read.access, what_of(read.size, kReads))});
}

// Gives the next work its epochs, and notes what comes before it.
void add_launch(Launch launch) {
  State &all = state();
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
  const Launch &running = all.launches.back();
  const auto first = std::find_if(all.launches.begin(), all.launches.end() - 1,
                                  [&](const Launch &l) { return !is_before(l.task, running.task); });
  all.before = first->epochs.first() * kLanes;
}

// Makes this core know what runs.
void begin_work() {
  State &all = state();
  Core &own = core();
  own.work = all.works;
  own.asked_first = own.asked_end = 0;
  own.threads.begin_kernel(&all.launches.back().epochs, this_core);
  __hiprt_check &now = check_context();
  now.before = all.before;
  now.code = all.launches.back().code;
}

// Says who runs now.
void resume(unsigned thread) {
  __hiprt_check &now = check_context();
  now.thread = thread;
  now.self = core().threads.self(thread);
}

void begin_block_of(uint32_t block, unsigned threads) {
  ThreadOrder &order = core().threads;
  order.begin_block(block, threads);
  __hiprt_check &now = check_context();
  now.first = now.block = order.phase() * kLanes;
  now.ordered = 0;
  resume(0);
}

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

// Holds what a core did to a word against what others did, and notes it. What it did before this kernel is not among it.
void join_word(Cell *cell, Cell *second, const Cell &other, const Cell &other_second, uintptr_t address) {
  const uint32_t first = state().launches.back().epochs.first();
  const auto conflicts = [&](uint64_t later, uint64_t before) {
    return who(later) && who(before) && bytes_of(later) & bytes_of(before) && !(later & before & kAtomicBit) &&
           (who(before) / kLanes >= first || !launch_is_before(who(before) / kLanes));
  };
  const uint64_t writes[] = {cell->write & ~kStates, second->write};
  const uint64_t reads[] = {cell->read & ~kStates, cell->read & kReadersBit ? second->read : 0};
  const uint64_t other_writes[] = {other.write & ~kStates, other_second.write};
  const uint64_t other_reads[] = {other.read & ~kStates, other.read & kReadersBit ? other_second.read : 0};
  for (const uint64_t later : other_writes) {
    for (const uint64_t before : writes) {
      if (conflicts(later, before)) tell_race(later, before, true, true, address);
    }
    for (const uint64_t before : reads) {
      if (conflicts(later, before)) tell_race(later, before, true, false, address);
    }
  }
  for (const uint64_t later : other_reads) {
    for (const uint64_t before : writes) {
      if (conflicts(later, before)) tell_race(later, before, false, true, address);
    }
  }
  cell->write |= other.write & kStates;
  for (const uint64_t access : other_writes) {
    if (who(access)) note_write(cell, second, access);
  }
  for (const uint64_t access : other_reads) {
    if (who(access)) note_read(cell, second, access);
  }
}

void join_page(uintptr_t address, Page *page, Page *other) {
  if (other->is_alike() && !who(other->whole[0].write) && !who(other->whole[0].read)) return;
  give_cells(page);
  give_cells(other);
  for (size_t w = 0; w < Page::kWords; ++w) {
    join_word(&page->cells[w], &page->cells[w + Page::kWords], other->cells[w], other->cells[w + Page::kWords], address + 4 * w);
  }
}

// Tells of the reads that cores found to be of what was never written, those of the first block first. Those of what another core
// wrote are races.
void tell_unwritten_reads() {
  const EpochLog &running = state().launches.back().epochs;
  PerCore<Core> &cores = state().cores;
  std::vector<Unwritten> reads;
  for (size_t number = 0; number < cores.count(); ++number) {
    if (Core *of = cores.of(number)) {
      reads.insert(reads.end(), of->unwritten.begin(), of->unwritten.end());
      of->unwritten.clear();
    }
  }
  const auto place = [&](uint64_t access) {
    const EpochLog::Owner *owner = running.owner(who(access) / kLanes);
    return std::make_tuple(owner->block, owner->warp, who(access) % kLanes);
  };
  std::stable_sort(reads.begin(), reads.end(), [&](const Unwritten &a, const Unwritten &b) { return place(a.access) < place(b.access); });
  const auto is_of_another_core = [&](uint64_t write, const Unwritten &read) {
    if (who(write) / kLanes < running.first() || !(bytes_of(write) >> read.address % 4 & 1)) return false;
    return running.run_of(who(write) / kLanes)->core != running.run_of(who(read.access) / kLanes)->core;
  };
  for (const Unwritten &read : reads) {
    const Cell *cell = shadow_cell(read.address);
    if (!is_of_another_core(cell->write, read) && !is_of_another_core(cell[Page::kWords].write, read)) tell_unwritten(read);
  }
}

}  // namespace

void begin_kernel(const CheckedKernel &kernel) {
  check_lock().lock();
  note_checked();
  before_shadow_changes(end_streaks);
  state().kernel = kernel;
  state().blocks_talk = false;
  Launch launch{};
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
  begin_work();
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
  State &all = state();
  if (all.kernel.is_shared) {
    unshare_shadow(join_page);
    tell_unwritten_reads();
  }
  const bool talk = all.blocks_talk;
  check_lock().unlock();
  return talk;
}

void resume_thread(unsigned thread) { resume(thread); }

void check_access(uintptr_t address, size_t size, unsigned kind, uintptr_t pc) {
  State &all = state();
  Core &own = core();
  if (size == 0 || address - reinterpret_cast<uintptr_t>(all.kernel.arguments) < all.kernel.arguments_size) return;
  end_streaks_at(address, size);
  __hiprt_check &now = check_context();
  if (kind & kAtomic && checks(CheckKind::Race)) {
    if (kind & kReleases && !is_shared(address)) all.blocks_talk = true;
    own.threads.atomic(now.thread, address, kind & kWrites, kind & kReads, kind & kReleases);
    resume(now.thread);
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
        if (all.kernel.is_shared && !is_shared(address)) own.unwritten.push_back(read);
        else tell_unwritten(read);
      }
      told = true;
    }
    cell->write |= uint64_t{bytes} << kWrittenShift;
    if (checks(CheckKind::Race)) check_race(cell, cell + Page::kWords, access, kind & kWrites, word);
  }
}

void check_fence(bool of_device) {
  const unsigned thread = check_context().thread;
  if (of_device) state().blocks_talk = true;
  core().threads.fence(thread, of_device);
  resume(thread);
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

void begin_transfer(const char *name) {
  state().kernel = CheckedKernel{};
  Launch launch{};
  launch.name = name;
  std::fill(launch.grid, launch.grid + 3, 1u);
  std::fill(launch.block, launch.block + 3, 1u);
  add_launch(std::move(launch));
  begin_work();
  begin_block_of(0, 1);
}

void note_own_memory() { state().blocks_talk = true; }

namespace {

// Calls visit(address, size) for the part of a range in each page.
template <class Visit>
void for_pages(uintptr_t address, size_t size, Visit visit) {
  for (const uintptr_t end = address + size; address < end;) {
    const uintptr_t next = std::min(end, (address / Page::kSize + 1) * Page::kSize);
    visit(address, next - address);
    address = next;
  }
}

// Notes a transfer's access. Of memory that is not the device's nothing is known.
void transfer(uintptr_t from, size_t length, bool writes) {
  if (!checks(CheckKind::Race)) return;
  const uint32_t self = check_context().self;
  for_pages(from, length, [&](uintptr_t address, size_t size) {
    Page *page = shadow_page(address);
    if (page->is_alike() && !usable(page->whole[0])) return;
    const uint64_t access = access_of(self, 15, false, 0);
    if (size == Page::kSize && page->is_alike()) return check_race(&page->whole[0], &page->whole[1], access, writes, address);
    if (size == Page::kSize && page->rows && plain_words(*page, 0, Page::kWords, false) == Page::kWords) {
      return note_words(page, 0, Page::kWords, access, 0, writes);
    }
    for (uintptr_t word = address & ~uintptr_t{3}; word < address + size; word += 4) {
      const size_t begin = std::max(address, word) - word, end = std::min(address + size, word + 4) - word;
      Cell *cell = shadow_cell(word);
      const unsigned bytes = ((1u << end) - 1) & ~((1u << begin) - 1) & usable(*cell);
      if (bytes) check_race(cell, cell + Page::kWords, access_of(self, bytes, false, 0), writes, word);
    }
  });
}

// Returns a bit for each of `count` bytes at an address: whether it was written. Memory that is not the device's was.
unsigned written_bytes(uintptr_t address, unsigned count) {
  unsigned out = 0;
  for (unsigned i = 0; i < count; ++i) {
    Page *page = shadow_page(address + i);
    if (page->rows) give_cells(page);
    const Cell &cell = page->cells ? page->cells[(address + i) % Page::kSize / 4] : page->whole[0];
    const unsigned byte = (address + i) % 4;
    out |= unsigned(!(usable(cell) >> byte & 1) || written(cell) >> byte & 1) << i;
  }
  return out;
}

void set_written(uintptr_t word, unsigned bytes, unsigned values) {
  Cell *cell = shadow_cell(word);
  bytes &= usable(*cell);
  cell->write = (cell->write & ~(uint64_t{bytes} << kWrittenShift)) | uint64_t{values & bytes} << kWrittenShift;
}

// Returns whether all of a page was written, or is not the device's.
bool is_written(const Page &page) {
  if (page.is_alike()) return !usable(page.whole[0]) || written(page.whole[0]) == 15;
  return page.rows && std::all_of(page.rows.get(), page.rows.get() + Page::kRows, [](const Row &row) { return written(row.first) == 15; });
}

// Notes that a page without cells was written.
void set_page_written(Page *page) {
  const auto set = [](Cell *cell) { cell->write |= uint64_t{usable(*cell)} << kWrittenShift; };
  set(&page->whole[0]);
  for (size_t i = 0; page->rows && i < Page::kRows; ++i) set(&page->rows[i].first);
}

}  // namespace

void check_copy(uintptr_t to, uintptr_t from, size_t length) {
  transfer(from, length, false);
  transfer(to, length, true);
  for_pages(to, length, [&](uintptr_t target, size_t size) {
    const uintptr_t source = from + (target - to);
    const bool all = is_written(*shadow_page(source)) && is_written(*shadow_page(source + size - 1));
    Page *page = shadow_page(target);
    if (all && size == Page::kSize && !page->cells) return set_page_written(page);
    if (page->is_alike() && !usable(page->whole[0])) return;
    for (uintptr_t word = target & ~uintptr_t{3}; word < target + size; word += 4) {
      const uintptr_t begin = std::max(target, word), end = std::min(target + size, word + 4);
      const unsigned count = static_cast<unsigned>(end - begin), bytes = ((1u << count) - 1) << (begin - word);
      const unsigned values = all ? bytes : written_bytes(from + (begin - to), count) << (begin - word);
      set_written(word, bytes, values);
    }
  });
}

void check_fill(uintptr_t to, size_t length) {
  transfer(to, length, true);
  for_pages(to, length, [&](uintptr_t address, size_t size) {
    Page *page = shadow_page(address);
    if (size == Page::kSize && !page->cells) return set_page_written(page);
    if (page->is_alike() && !usable(page->whole[0])) return;
    for (uintptr_t word = address & ~uintptr_t{3}; word < address + size; word += 4) {
      const uintptr_t begin = std::max(address, word) - word, end = std::min(address + size, word + 4) - word;
      const unsigned bytes = ((1u << end) - 1) & ~((1u << begin) - 1);
      set_written(word, bytes, bytes);
    }
  });
}

void module_loaded(uintptr_t base, size_t size, const unsigned char *lines, size_t lines_size) {
  module_memory(base, size);
  const std::lock_guard<std::recursive_mutex> hold(check_lock());
  state().modules.push_back({base, size, LineTable(lines, lines_size)});
  state().told.clear();  // the addresses may have been another module's
}

void module_unloaded(uintptr_t base, size_t size) { module_memory_gone(base, size); }

}  // namespace cpu
