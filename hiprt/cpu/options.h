// The options of hiprtcCompileProgram.
#pragma once

#include <string>
#include <vector>

namespace cpu {

// Turn hiprtc options into compiler flags. False with a message that names the option if one is not known.
// The target options (--gpu-architecture, --offload-arch, ...) are accepted and ignored: there is one target.
bool read_options(const std::vector<std::string> &given, std::vector<std::string> *flags, std::string *message);

}  // namespace cpu
