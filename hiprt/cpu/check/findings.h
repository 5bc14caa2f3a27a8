// The findings of the checks of running kernels, in words: who did what, where in the code, and to which memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "check/check_state.h"
#include "check/report.h"

namespace cpu {

// Returns the file and the line of an instruction, empty if they are not known.
std::string line_of(uintptr_t pc);
// Returns the side of a finding that an access is, which did `what`.
Involved involved(uint64_t access, const std::string &what);
// Tells of two accesses to a word that nothing orders, once for the places of both.
void tell_race(uint64_t later, uint64_t before, bool later_writes, bool before_wrote, uintptr_t word);
// Tells of an access to bytes that must not be touched.
void tell_unusable(uintptr_t address, size_t size, unsigned kind, uint64_t access);
// Tells of a read of a byte that was never written.
void tell_unwritten(const Unwritten &read);
// Tells of the reads that cores found to be of what was never written, those of the first block first. Those of what another core
// wrote are races.
void tell_unwritten_reads();

}  // namespace cpu
