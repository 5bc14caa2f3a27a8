// The headers that a program for hiprtc has without including them.
#pragma once

#include <string>
#include <vector>

namespace cpu {

// Returns those whose names a preprocessed text uses, as #include would name them. The others are not read at all, because
// that takes time.
std::vector<std::string> builtin_headers(const std::string &text);

}  // namespace cpu
