// Poison: the bytes that stand for an undefined result.
#pragma once

#include <cstddef>

namespace cpu {

// Fills memory with poison, bytes of 0xFB.
void poison(void *base, size_t size);

}  // namespace cpu
