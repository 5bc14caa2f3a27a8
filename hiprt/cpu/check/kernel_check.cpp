#include "check/kernel_check.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>

#include "check/checks.h"
#include "check/line_table.h"
#include "check/report.h"
#include "check/shadow.h"
#include "check/task_order.h"
#include "check/thread_order.h"

namespace cpu {
namespace {

constexpr size_t kLaunches = 20000;  // older ones count as finished
constexpr size_t kSharedRoom = 2 * 65536;
constexpr uint32_t kMostTime = (1u << 22) - 1;

// A kernel that ran, or a copy or fill as a kernel of one thread.
struct Launch {
  uint32_t first_block;  // its blocks are numbered on from here
  uint64_t blocks;
  std::string name;
  unsigned grid[3], block[3];
  bool is_kernel;
  RunningTask task;
};

struct Module {
  uintptr_t base;
  size_t size;
  LineTable lines;
};

// A shared word: what the block that runs has done to it.
struct SharedWord : Word {
  uint32_t block = 0;
  uint8_t written = 0;
};

struct State {
  std::deque<Launch> launches;
  std::deque<Module> modules;
  uint32_t next_block = 1;
  CheckedKernel kernel;
  uint32_t block = 0;
  ThreadOrder threads;
  std::vector<SharedWord> shared{kSharedRoom / 4};
  // The launch that was asked about last, and whether it comes before the one that runs.
  uint32_t asked_first = 0, asked_end = 0;
  bool asked_is_before = false;
};

State &state() {
  static State &all = *new State;
  return all;
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

const Launch *launch_of(uint32_t block) {
  const auto &all = state().launches;
  auto after = std::upper_bound(all.begin(), all.end(), block,
                                [](uint32_t value, const Launch &l) { return value < l.first_block; });
  if (after == all.begin()) return nullptr;
  --after;
  return block - after->first_block < after->blocks ? &*after : nullptr;
}

Involved involved(const Stamp &stamp, const std::string &what) {
  Involved out;
  out.what = what;
  out.line = stamp.pc ? line_of(stamp.pc) : "";
  const Launch *launch = launch_of(stamp.block);
  if (!launch) {
    out.kernel = "a work long ago";
    return out;
  }
  out.kernel = readable(launch->name);
  out.is_kernel = launch->is_kernel;
  if (const Task *task = launch->task.task.get()) {
    out.work = "work " + std::to_string(task->number) + " of stream " + std::to_string(task->stream);
    if (launch->task.launch) out.work += ", step " + std::to_string(launch->task.step) + " of its graph";
  }
  const uint64_t block = stamp.block - launch->first_block;
  const unsigned thread = stamp.thread;
  out.block[0] = unsigned(block % launch->grid[0]), out.block[1] = unsigned(block / launch->grid[0] % launch->grid[1]);
  out.block[2] = unsigned(block / launch->grid[0] / launch->grid[1]);
  out.thread[0] = thread % launch->block[0], out.thread[1] = thread / launch->block[0] % launch->block[1];
  out.thread[2] = thread / launch->block[0] / launch->block[1];
  out.lane = thread % kLanes;
  return out;
}

Stamp now(unsigned thread, unsigned bytes, bool is_atomic, uintptr_t pc) {
  State &all = state();
  Stamp stamp{};
  stamp.pc = pc;
  stamp.bytes = bytes & 0xF;
  stamp.is_atomic = is_atomic;
  stamp.block = all.block;
  stamp.thread = thread & 1023;
  stamp.time = std::min(all.threads.time(thread), kMostTime) & kMostTime;
  return stamp;
}

bool launch_is_before(uint32_t block) {
  State &all = state();
  const Launch &running = all.launches.back();
  if (block >= running.first_block) return false;
  if (block >= all.asked_first && block < all.asked_end) return all.asked_is_before;
  const Launch *launch = launch_of(block);
  if (!launch) return true;
  all.asked_first = launch->first_block;
  all.asked_end = static_cast<uint32_t>(launch->first_block + launch->blocks);
  return all.asked_is_before = is_before(launch->task, running.task);
}

bool is_ordered(const Stamp &before, unsigned thread) {
  if (before.block == 0) return true;
  return state().threads.is_before(before.block, before.thread, before.time, thread) || launch_is_before(before.block);
}

std::string count_of(size_t bytes) { return std::to_string(bytes) + (bytes == 1 ? " byte is " : " bytes are "); }

std::string what_of(size_t size, unsigned kind) {
  const std::string atomic = kind & kAtomic ? "atomically " : "";
  return count_of(size) + atomic + (kind & kWrites ? "written" : "read");
}

bool is_shared(uintptr_t address) {
  return address - reinterpret_cast<uintptr_t>(state().kernel.shared) < kSharedRoom && state().kernel.shared;
}

std::string buffer_of(uintptr_t address) {
  char text[256];
  if (is_shared(address)) {
    const size_t offset = address - reinterpret_cast<uintptr_t>(state().kernel.shared);
    const bool dynamic = offset >= state().kernel.dynamic_offset;
    std::snprintf(text, sizeof text, "byte %zu of the block's %s shared memory of %zu bytes",
                  dynamic ? offset - state().kernel.dynamic_offset : offset, dynamic ? "dynamic" : "static",
                  dynamic ? state().kernel.dynamic_shared : state().kernel.static_shared);
    return text;
  }
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

void tell_race(const Stamp &later, const Stamp &before, bool later_writes, bool before_wrote, uintptr_t word) {
  const auto bytes = [](const Stamp &s) { return static_cast<size_t>(__builtin_popcount(s.bytes)); };
  const auto kind = [](const Stamp &s, bool writes) { return (writes ? kWrites : kReads) | (s.is_atomic ? kAtomic : 0u); };
  const unsigned common = later.bytes & before.bytes;
  const bool same_kernel = later.block == before.block;
  const std::string who = same_kernel ? "two threads of a block" : "two threads";
  tell(CheckKind::Race, who + " touch the same memory and nothing orders them", word + unsigned(__builtin_ctz(common)),
       {involved(later, what_of(bytes(later), kind(later, later_writes))),
        involved(before, what_of(bytes(before), kind(before, before_wrote)))});
}

// Notes a read. The one that another thread did last is kept beside it.
void note_read(Word *word, const Stamp &stamp) {
  const Stamp &last = word->read[0];
  const bool is_same = last.block == stamp.block && last.thread == stamp.thread;
  if (last.block && !is_same && !is_ordered(last, stamp.thread)) word->read[1] = last;
  word->read[0] = stamp;
}

void note_write(Word *word, const Stamp &stamp) {
  if (stamp.is_atomic) {
    word->atomic = stamp;
    return;
  }
  if (word->write[0].bytes & ~stamp.bytes) word->write[1] = word->write[0];
  else if (!(word->write[1].bytes & ~stamp.bytes)) word->write[1] = {};
  word->write[0] = stamp;
  word->atomic = word->read[0] = word->read[1] = {};
}

// Holds an access against the last ones of the word and notes it.
void check_race(Word *word, const Stamp &stamp, bool writes, uintptr_t address) {
  const auto conflicts = [&](const Stamp &before) {
    return before.block && before.bytes & stamp.bytes && !(before.is_atomic && stamp.is_atomic) &&
           !is_ordered(before, stamp.thread);
  };
  for (const Stamp *before : {&word->write[0], &word->write[1], &word->atomic}) {
    if (conflicts(*before)) return tell_race(stamp, *before, writes, true, address);
  }
  if (!writes) return note_read(word, stamp);
  for (const Stamp &before : word->read) {
    if (conflicts(before)) return tell_race(stamp, before, true, false, address);
  }
  note_write(word, stamp);
}

void check_shared_access(unsigned thread, uintptr_t address, size_t size, unsigned kind, uintptr_t pc) {
  State &all = state();
  const size_t offset = address - reinterpret_cast<uintptr_t>(all.kernel.shared);
  const size_t dynamic = all.kernel.dynamic_offset;
  const bool inside = offset + size <= all.kernel.static_shared ||
                      (offset >= dynamic && offset + size <= dynamic + all.kernel.dynamic_shared);
  if (!inside) {
    if (checks(CheckKind::Memory)) {
      tell(CheckKind::Memory, "shared memory that the block does not have is touched", address,
           {involved(now(thread, 15, kind & kAtomic, pc), what_of(size, kind))});
    }
    return;
  }
  bool told = false;
  for (size_t word = offset / 4; word <= (offset + size - 1) / 4; ++word) {
    const size_t from = std::max(offset, word * 4) - word * 4, to = std::min(offset + size, word * 4 + 4) - word * 4;
    const unsigned bytes = ((1u << to) - 1) & ~((1u << from) - 1);
    SharedWord &w = all.shared[word];
    if (w.block != all.block) static_cast<Word &>(w) = Word{}, w.block = all.block, w.written = 0;
    const Stamp stamp = now(thread, bytes, kind & kAtomic, pc);
    if (kind & kReads && (bytes & ~w.written) && checks(CheckKind::Init) && !told) {
      tell(CheckKind::Init, "shared memory that the block never wrote is read", address, {involved(stamp, what_of(size, kReads))});
      told = true;
    }
    if (kind & kReads && told) w.written |= bytes;
    if (kind & kWrites) w.written |= bytes;
    if (checks(CheckKind::Race)) {
      check_race(&w, stamp, kind & kWrites, reinterpret_cast<uintptr_t>(all.kernel.shared) + word * 4);
    }
  }
}

void check_global_access(unsigned thread, uintptr_t address, size_t size, unsigned kind, uintptr_t pc) {
  bool told = false;
  for (uintptr_t word = address & ~uintptr_t{3}; word < address + size; word += 4) {
    const size_t from = std::max(address, word) - word, to = std::min(address + size, word + 4) - word;
    const unsigned bytes = ((1u << to) - 1) & ~((1u << from) - 1);
    Page *page = shadow_page(word);
    const size_t offset = word % Page::kSize;
    ByteState *states = page->state + offset;
    for (size_t i = from; i < to; ++i) {
      if (states[i] == ByteState::Unknown || states[i] == ByteState::Freed) {
        if (checks(CheckKind::Memory)) {
          const bool freed = states[i] == ByteState::Freed;
          tell(CheckKind::Memory, freed ? "freed memory is touched" : "memory that is not the device's is touched", word + i,
               {involved(now(thread, bytes, kind & kAtomic, pc), what_of(size, kind))});
        }
        return;
      }
      if (kind & kReads && states[i] == ByteState::Uninitialised && !told && checks(CheckKind::Init)) {
        tell(CheckKind::Init, "memory that was never written is read", word + i,
             {involved(now(thread, bytes, kind & kAtomic, pc), what_of(size, kReads))});
        told = true;
      }
      if (kind & kWrites || told) states[i] = ByteState::Initialised;
    }
    if (checks(CheckKind::Race)) {
      check_race(page->word(offset), now(thread, bytes, kind & kAtomic, pc), kind & kWrites, word);
    }
  }
}

uint32_t add_launch(Launch launch) {
  State &all = state();
  launch.first_block = all.next_block;
  all.next_block += static_cast<uint32_t>(launch.blocks);
  launch.task = running_task();
  if (all.launches.size() >= kLaunches) all.launches.pop_front();
  all.launches.push_back(std::move(launch));
  all.asked_first = all.asked_end = 0;
  return all.launches.back().first_block;
}

}  // namespace

void begin_kernel(const CheckedKernel &kernel) {
  check_lock().lock();
  State &all = state();
  all.kernel = kernel;
  Launch launch{};
  launch.name = kernel.name;
  std::copy(kernel.grid, kernel.grid + 3, launch.grid);
  std::copy(kernel.block, kernel.block + 3, launch.block);
  launch.blocks = uint64_t{kernel.grid[0]} * kernel.grid[1] * kernel.grid[2];
  launch.is_kernel = true;
  add_launch(std::move(launch));
  all.threads.begin_kernel();
}

void begin_checked_block(const unsigned (&index)[3], const unsigned char *shared) {
  State &all = state();
  all.kernel.shared = shared;
  const CheckedKernel &kernel = all.kernel;
  const uint64_t number = index[0] + uint64_t{kernel.grid[0]} * (index[1] + uint64_t{kernel.grid[1]} * index[2]);
  all.block = all.launches.back().first_block + static_cast<uint32_t>(number);
  all.threads.begin_block(all.block, kernel.block[0] * kernel.block[1] * kernel.block[2]);
}

void end_kernel() {
  state().kernel.shared = nullptr;
  check_lock().unlock();
}

void check_access(unsigned thread, uintptr_t address, size_t size, unsigned kind, uintptr_t pc) {
  State &all = state();
  if (size == 0 || address - reinterpret_cast<uintptr_t>(all.kernel.arguments) < all.kernel.arguments_size) return;
  if (kind & kAtomic && checks(CheckKind::Race)) {
    all.threads.atomic(thread, address, kind & kWrites, kind & kReads, kind & kReleases);
  }
  if (is_shared(address)) check_shared_access(thread, address, size, kind, pc);
  else check_global_access(thread, address, size, kind, pc);
}

void check_fence(unsigned thread, bool of_device) { state().threads.fence(thread, of_device); }

void check_barrier(const std::vector<uintptr_t> &places) {
  if (!checks(CheckKind::Barrier)) return;
  const auto arrived = std::find_if(places.begin(), places.end(), [](uintptr_t place) { return place != 0; });
  const auto thread = static_cast<unsigned>(arrived - places.begin());
  const Stamp stamp = now(thread, 15, false, *arrived);
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
             involved(now(other, 15, false, places[other]), "another is waited at")}, {}});
    return;
  }
}

void order_block() { state().threads.barrier(); }

void order_lanes(unsigned first, uint32_t lanes) { state().threads.lanes(first, lanes); }

void report_inactive_lane(unsigned thread, unsigned source, bool has_exited, uintptr_t pc) {
  if (!checks(CheckKind::Barrier)) return;
  const std::string why = has_exited ? " has exited or never was" : " takes no part";
  report({CheckKind::Barrier, "a lane reads the value of lane " + std::to_string(source) + ", which" + why, 0, "",
          {involved(now(thread, 15, false, pc), "a shuffle is done")}, {}});
}

void begin_transfer(const char *name) {
  State &all = state();
  all.kernel = CheckedKernel{};
  Launch launch{};
  launch.name = name;
  std::fill(launch.grid, launch.grid + 3, 1u);
  std::fill(launch.block, launch.block + 3, 1u);
  launch.blocks = 1;
  all.block = add_launch(std::move(launch));
  all.threads.begin_kernel();
  all.threads.begin_block(all.block, 1);
}

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
  for_pages(from, length, [&](uintptr_t address, size_t size) {
    Page *page = shadow_page(address);
    if (page->state[address % Page::kSize] == ByteState::Unknown) return;
    if (size == Page::kSize && !page->words) return check_race(&page->whole, now(0, 15, false, 0), writes, address);
    for (uintptr_t word = address & ~uintptr_t{3}; word < address + size; word += 4) {
      const size_t begin = std::max(address, word) - word, end = std::min(address + size, word + 4) - word;
      const Stamp stamp = now(0, ((1u << end) - 1) & ~((1u << begin) - 1), false, 0);
      check_race(page->word(word % Page::kSize), stamp, writes, word);
    }
  });
}

bool is_known(ByteState state) { return state == ByteState::Uninitialised || state == ByteState::Initialised; }

}  // namespace

void check_copy(uintptr_t to, uintptr_t from, size_t length) {
  transfer(from, length, false);
  transfer(to, length, true);
  for_pages(to, length, [&](uintptr_t target, size_t size) {
    ByteState *states = shadow_page(target)->state + target % Page::kSize;
    for_pages(from + (target - to), size, [&](uintptr_t source, size_t part) {
      const ByteState *known = shadow_page(source)->state + source % Page::kSize;
      for (size_t i = 0; i < part; ++i, ++states) {
        if (is_known(*states)) *states = known[i] == ByteState::Uninitialised ? known[i] : ByteState::Initialised;
      }
    });
  });
}

void check_fill(uintptr_t to, size_t length) {
  transfer(to, length, true);
  for_pages(to, length, [&](uintptr_t address, size_t size) {
    ByteState *states = shadow_page(address)->state + address % Page::kSize;
    std::replace(states, states + size, ByteState::Uninitialised, ByteState::Initialised);
  });
}

void module_loaded(uintptr_t base, size_t size, const unsigned char *lines, size_t lines_size) {
  module_memory(base, size);
  const std::lock_guard<std::recursive_mutex> hold(check_lock());
  state().modules.push_back({base, size, LineTable(lines, lines_size)});
}

void module_unloaded(uintptr_t base, size_t size) { module_memory_gone(base, size); }

}  // namespace cpu
