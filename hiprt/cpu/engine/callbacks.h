// The host's functions that kernels call: barriers, warp operations, printf, mathematics.
#pragma once

#include "include/cpu_abi.h"

namespace cpu {

const __hiprt_host &host_callbacks();

// Hands what kernels have printed to the operating system; called after each kernel.
void flush_prints();

}  // namespace cpu
