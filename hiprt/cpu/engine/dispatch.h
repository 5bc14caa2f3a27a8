// The execution of a kernel's grid on the host's cores.
#pragma once

#include <cstdint>

#include "engine/kernel.h"
#include "hip/hip_runtime_api.h"

namespace cpu {

// Executes every block of the grid and returns when all are done. Only the device thread calls it; it spreads the
// blocks over the cores. `kernarg` holds at least kernel.kernarg_size bytes. A fault in the kernel becomes the result.
// The blocks of a cooperative launch are there at once, and can wait for each other at the grid's barrier.
hipError_t run_kernel(const Kernel &kernel, dim3 grid, dim3 block, uint32_t dynamic_shared, const void *kernarg,
                      bool is_cooperative);

}  // namespace cpu
