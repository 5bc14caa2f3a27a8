// The checks of copies and fills.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cpu {

// A copy or a fill, which is one access. A copy hands the source's bytes on as they are, never written ones too.
void check_copy(uintptr_t to, uintptr_t from, size_t size);
void check_fill(uintptr_t to, size_t size);
// Begins a copy or fill, whose rows follow.
void begin_transfer(const char *name);

}  // namespace cpu
