#include "check/kernel_check.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <set>
#include <utility>

#include "check/checks.h"
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
  EpochLog epochs{0};
};

struct Module {
  uintptr_t base;
  size_t size;
  LineTable lines;
};

struct State {
  std::deque<Launch> launches;
  std::deque<Module> modules;
  uint32_t next_epoch = 1;
  size_t owners = 0, next_to_forget = 0;  // of the launches before the last one
  CheckedKernel kernel;
  ThreadOrder threads;
  std::vector<std::pair<size_t, size_t>> usable_shared;  // offsets and sizes of what of the shared memory may be touched
  // The launch that was asked about last, as a range of epochs, and whether it comes before the one that runs.
  uint32_t asked_first = 0, asked_end = 0;
  bool asked_is_before = false;
  std::set<std::pair<uint64_t, uint64_t>> told;  // races by the places of both accesses
};

State &state() {
  static State &all = *new State;
  return all;
}

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
uint64_t access_by(unsigned thread, uintptr_t pc) { return access_of(state().threads.self(thread), 15, false, pc); }

bool launch_is_before(uint32_t epoch) {
  State &all = state();
  if (epoch >= all.asked_first && epoch < all.asked_end) return all.asked_is_before;
  const Launch *launch = launch_of(epoch);
  if (!launch) return true;
  all.asked_first = launch->epochs.first();
  all.asked_end = launch->epochs.end();
  return all.asked_is_before = is_before(launch->task, all.launches.back().task);
}

bool is_ordered(uint64_t before) {
  const __hiprt_check &now = check_context();
  const uint32_t other = who(before);
  if (other < now.before || other - now.block < now.ordered || other == now.self) return true;
  const EpochLog &running = state().launches.back().epochs;
  const EpochLog::Owner *owner = running.owner(other / kLanes);
  if (!owner) return launch_is_before(other / kLanes);
  const unsigned thread = owner->warp * kLanes + other % kLanes;
  return state().threads.is_before(owner->block, thread, other / kLanes, now.thread);
}

std::string count_of(size_t bytes) { return std::to_string(bytes) + (bytes == 1 ? " byte is " : " bytes are "); }

std::string what_of(size_t size, unsigned kind) {
  const std::string atomic = kind & kAtomic ? "atomically " : "";
  return count_of(size) + atomic + (kind & kWrites ? "written" : "read");
}

bool is_shared(uintptr_t address) {
  return address - reinterpret_cast<uintptr_t>(state().kernel.shared) < kSharedRoom && state().kernel.shared;
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
  if (is_shared(address)) return shared_at(address - reinterpret_cast<uintptr_t>(state().kernel.shared));
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

void tell_race(uint64_t later, uint64_t before, bool later_writes, bool before_wrote, uintptr_t word) {
  const auto place = [](uint64_t access) {
    const Launch *launch = launch_of(who(access) / kLanes);
    return launch ? launch->code + (access >> 32 & ((uint64_t{1} << kPlaceBits) - 1)) : 0;
  };
  const bool are_kernels = state().launches.back().is_kernel && place(before);
  if (are_kernels && !state().told.insert({place(later), place(before)}).second) return;
  const auto bytes = [](uint64_t access) { return static_cast<size_t>(__builtin_popcount(bytes_of(access))); };
  const auto kind = [](uint64_t access, bool writes) { return (writes ? kWrites : kReads) | (access & kAtomicBit ? kAtomic : 0u); };
  const unsigned common = bytes_of(later) & bytes_of(before);
  const EpochLog::Owner *owner = state().launches.back().epochs.owner(who(before) / kLanes);
  const std::string which = owner && owner->block == state().threads.block() ? "two threads of a block" : "two threads";
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
  if (!checks(CheckKind::Memory)) return;
  const char *text = "memory that belongs to no buffer is touched";
  if (is_shared(address)) text = "shared memory that the block does not have is touched";
  else if (memory_at(address).freed) text = "freed memory is touched";
  tell(CheckKind::Memory, text, address, {involved(access, what_of(size, kind))});
}

// Gives the next work its epochs, and notes what comes before it.
Launch *add_launch(Launch launch) {
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
  launch.epochs = EpochLog(all.next_epoch);
  launch.task = running_task();
  all.launches.push_back(std::move(launch));
  all.asked_first = all.asked_end = 0;
  const Launch &running = all.launches.back();
  const auto first = std::find_if(all.launches.begin(), all.launches.end() - 1,
                                  [&](const Launch &l) { return !is_before(l.task, running.task); });
  check_context().before = first->epochs.first() * kLanes;
  check_context().code = running.code;
  all.threads.begin_kernel(&all.launches.back().epochs);
  return &all.launches.back();
}

// Says who runs now.
void resume(unsigned thread) {
  __hiprt_check &now = check_context();
  now.thread = thread;
  now.self = state().threads.self(thread);
}

void begin_block_of(uint32_t block, unsigned threads) {
  State &all = state();
  all.threads.begin_block(block, threads);
  __hiprt_check &now = check_context();
  now.first = now.block = all.threads.phase() * kLanes;
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
  if (state().usable_shared != usable) {
    for (const auto &[offset, size] : state().usable_shared) set_shared(base + offset, size, false);
    state().usable_shared = usable;
  }
  for (const auto &[offset, size] : usable) set_shared(base + offset, size, true);
}

}  // namespace

void begin_kernel(const CheckedKernel &kernel) {
  check_lock().lock();
  note_checked();
  state().kernel = kernel;
  Launch launch{};
  launch.name = kernel.name;
  std::copy(kernel.grid, kernel.grid + 3, launch.grid);
  std::copy(kernel.block, kernel.block + 3, launch.block);
  launch.is_kernel = true;
  launch.code = kernel.code;
  add_launch(std::move(launch));
  forget_streaks();
}

void begin_checked_block(const unsigned (&index)[3], const unsigned char *shared) {
  begin_shared(reinterpret_cast<uintptr_t>(shared), state().kernel);
  enter_checked_block(index, shared);
}

void enter_checked_block(const unsigned (&index)[3], const unsigned char *shared) {
  CheckedKernel &kernel = state().kernel;
  kernel.shared = shared;
  begin_block_of(index[0] + kernel.grid[0] * (index[1] + kernel.grid[1] * index[2]),
                 kernel.block[0] * kernel.block[1] * kernel.block[2]);
}

void leave_checked_block() { state().threads.reach_grid(); }

void pass_checked_grid() { state().threads.pass_grid(); }

void end_kernel() {
  end_row();
  state().kernel.shared = nullptr;
  check_lock().unlock();
}

void resume_thread(unsigned thread) { resume(thread); }

void check_access(uintptr_t address, size_t size, unsigned kind, uintptr_t pc) {
  State &all = state();
  if (size == 0 || address - reinterpret_cast<uintptr_t>(all.kernel.arguments) < all.kernel.arguments_size) return;
  end_streaks_at(address, size);
  __hiprt_check &now = check_context();
  if (kind & kAtomic && checks(CheckKind::Race)) {
    all.threads.atomic(now.thread, address, kind & kWrites, kind & kReads, kind & kReleases);
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
        const uintptr_t at = word + unsigned(__builtin_ctz(missing));
        tell(CheckKind::Init, is_shared(address) ? "shared memory that the block never wrote is read" : "memory that was never written is read",
             at, {involved(access, what_of(size, kReads))});
      }
      told = true;
    }
    cell->write |= uint64_t{bytes} << kWrittenShift;
    if (checks(CheckKind::Race)) check_race(cell, cell + Page::kWords, access, kind & kWrites, word);
  }
}

void check_fence(bool of_device) {
  const unsigned thread = check_context().thread;
  state().threads.fence(thread, of_device);
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
  ThreadOrder &threads = state().threads;
  threads.barrier();
  __hiprt_check &now = check_context();
  now.ordered = threads.phase() * kLanes - now.block;
}

void order_lanes(unsigned first, uint32_t lanes) { state().threads.lanes(first, lanes); }

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
  begin_block_of(0, 1);
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
}

void module_unloaded(uintptr_t base, size_t size) { module_memory_gone(base, size); }

}  // namespace cpu
