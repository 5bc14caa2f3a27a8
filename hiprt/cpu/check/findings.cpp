#include "check/findings.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "check/checks.h"

namespace cpu {
namespace {

std::string readable(const std::string &name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void *)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : name;
}

std::string count_of(size_t bytes) { return std::to_string(bytes) + (bytes == 1 ? " byte is " : " bytes are "); }

std::string what_of(size_t size, unsigned kind) {
  const std::string atomic = kind & kAtomic ? "atomically " : "";
  return count_of(size) + atomic + (kind & kWrites ? "written" : "read");
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
  if (is_in_shared_memory(address)) return shared_at(address - reinterpret_cast<uintptr_t>(core().shared));
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
  if (!is_in_shared_memory(address)) {
    const MemoryAt memory = memory_at(address);
    for (const std::string &stack : {memory.taken, memory.given_back}) {
      if (!stack.empty()) finding.stacks.push_back(stack);
    }
  }
  report(finding);
}

// Returns the place in the code of an access, 0 if it has none.
uint64_t place_of(uint64_t access) {
  const LaunchRecord *launch = launch_of(who(access) / kLanes);
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

}  // namespace

std::string line_of(uintptr_t pc) {
  for (auto m = state().modules.rbegin(); m != state().modules.rend(); ++m) {
    if (pc - m->base < m->size) return m->lines.at(pc - 1 - m->base);
  }
  return "";
}

Involved involved(uint64_t access, const std::string &what) {
  Involved out;
  out.what = what;
  const uint32_t epoch = who(access) / kLanes;
  const LaunchRecord *launch = launch_of(epoch);
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

void tell_unusable(uintptr_t address, size_t size, unsigned kind, uint64_t access) {
  if (!checks(CheckKind::Memory) || !is_new(CheckKind::Memory, place_of(access), size << 5 | kind)) return;
  const char *text = "memory that belongs to no buffer is touched";
  if (is_in_shared_memory(address)) text = "shared memory that the block does not have is touched";
  else if (memory_at(address).freed) text = "freed memory is touched";
  tell(CheckKind::Memory, text, address, {involved(access, what_of(size, kind))});
}

void tell_unwritten(const Unwritten &read) {
  if (!is_new(CheckKind::Init, place_of(read.access), read.size)) return;
  const char *text = is_in_shared_memory(read.address) ? "shared memory that the block never wrote is read" : "memory that was never written is read";
  tell(CheckKind::Init, text, read.address, {involved(read.access, what_of(read.size, kReads))});
}

void tell_unwritten_reads() {
  const EpochLog &running = state().launches.back().epochs;
  PerCore<CheckedCore> &cores = state().cores;
  std::vector<Unwritten> reads;
  for (size_t number = 0; number < cores.count(); ++number) {
    if (CheckedCore *of = cores.of(number)) {
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

}  // namespace cpu
