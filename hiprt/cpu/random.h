// The seeded random numbers that decide what HIP leaves open: which stream goes on, which node of a graph runs next.
#pragma once

#include <cstdint>

namespace cpu {

// Returns the next number below `bound` of the sequence that HIPRT_CPU_SEED chooses.
uint32_t random_below(uint32_t bound);

}  // namespace cpu
