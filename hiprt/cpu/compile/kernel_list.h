// The kernels of a program for hipcc list themselves: each instance of a template is known to the compiler alone.
#pragma once

#include <string>

namespace cpu {

// Returns a preprocessed text in which every kernel's body begins with the entry of its instance in the module's table
// (include/cpu_kernel.h), and if `indices` is set, with its own copy of the indices.
std::string list_kernels(const std::string &text, bool indices);

}  // namespace cpu
