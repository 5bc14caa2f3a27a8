// Reading memory that may not be there.
#pragma once

#include <cstddef>

namespace cpu {

// Copies bytes that the application may have unmapped; false if they cannot be read.
bool peek(void *to, const void *from, size_t size);

}  // namespace cpu
