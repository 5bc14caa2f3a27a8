// Functions as applications name them.
#pragma once

#include "runtime/module.h"

namespace cpu {

// Gives the function behind a handle (hipFunction_t, or the func of hipKernelNodeParams) or behind the address that a kernel has
// in the host part of a program for hipcc; false for anything else.
bool find_function(const void *handle, Function *out);

}  // namespace cpu
