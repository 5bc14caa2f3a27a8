// Accesses to a word held against the last ones that the shadow keeps.
#pragma once

#include <cstdint>

#include "check/shadow.h"

namespace cpu {

// Holds an access against the last ones of the word and notes it.
void check_race(Cell *cell, Cell *second, uint64_t access, bool writes, uintptr_t address);
// Holds what a core did to a page against what the one did that came to it first, and notes it.
void join_page(uintptr_t address, Page *page, Page *other);

}  // namespace cpu
