#include "check/races.h"

#include "check/check_state.h"
#include "check/findings.h"

namespace cpu {
namespace {

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

}  // namespace

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

void join_page(uintptr_t address, Page *page, Page *other) {
  if (other->is_alike() && !who(other->whole[0].write) && !who(other->whole[0].read)) return;
  give_cells(page);
  give_cells(other);
  for (size_t w = 0; w < Page::kWords; ++w) {
    join_word(&page->cells[w], &page->cells[w + Page::kWords], other->cells[w], other->cells[w + Page::kWords], address + 4 * w);
  }
}

}  // namespace cpu
