// The options of hiprtcCompileProgram.
#pragma once

#include <string>
#include <vector>

namespace cpu {

struct Options {
  std::vector<std::string> flags;  // for the compiler
  std::string definitions;         // -D and -U as text; it follows our own headers, whose names it must not change
};

// Returns false, and a message that names the option, if an option is not known. The target options
// (--gpu-architecture, --offload-arch, ...) are accepted and ignored, because there is one target.
bool read_options(const std::vector<std::string> &given, Options *out, std::string *message);

}  // namespace cpu
