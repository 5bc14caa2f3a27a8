// What stands for undefined results, and reads of memory that may not be there.
#pragma once

#include <cstddef>

#include "runtime/work.h"

namespace cpu {

// Write 0xFB where the work would have written: the box of a copy or fill, the start of what a kernel's pointers name.
// False, and nothing done, for other works.
bool poison(const Work &work);

// A work of the same type that poisons instead.
std::shared_ptr<Work> poisoned(std::shared_ptr<Work> work);

// Copy bytes that the application may have unmapped; false if they cannot be read.
bool peek(void *to, const void *from, size_t size);

}  // namespace cpu
