// What HIPRT_CPU_CHECK asks for: the defects of kernels that are looked for while they run.
#pragma once

#include "flags.h"

namespace cpu {

// Returns whether a kind of defect is looked for.
inline bool checks(CheckKind kind) { return flags().checks & static_cast<unsigned>(kind); }
// Returns whether any is, so that kernels are compiled with a call at each access (include/cpu_check.h).
inline bool is_checking() { return flags().checks != 0; }

}  // namespace cpu
