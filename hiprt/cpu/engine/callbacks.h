// The functions of the host that kernels call.
#pragma once

#include "include/cpu_abi.h"

namespace cpu {

const __hiprt_host &host_callbacks();

// Hand what kernels have printed to the operating system; after each kernel.
void flush_prints();

}  // namespace cpu
