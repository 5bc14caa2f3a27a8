// The execution of a kernel's grid on the host's cores.
#pragma once

#include <cstdint>

#include "engine/kernel.h"
#include "hip/hip_runtime_api.h"

namespace cpu {

// Execute every block of the grid; returns when all are done. Called on the device thread only; spreads blocks over the
// cores. kernarg: at least kernel.kernarg_size bytes. A fault in the kernel is reported, never swallowed.
hipError_t run_kernel(const Kernel &kernel, dim3 grid, dim3 block, uint32_t dynamic_shared, const void *kernarg);

}  // namespace cpu
