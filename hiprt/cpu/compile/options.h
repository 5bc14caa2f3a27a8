// The options of hiprtcCompileProgram.
#pragma once

#include <string>
#include <vector>

namespace cpu {

struct Options {
  bool is_hip = false;             // -xhip: the text is a program for hipcc, host code and all
  bool is_preprocessed = false;    // -xhip-cpp-output: and is what the preprocessor made of it
  bool is_linked = false;          // -fgpu-rdc: bitcode is made, for hiprtcLinkAddData
  std::vector<std::string> flags;  // for the compiler
  std::vector<std::string> clang_flags;  // those that g++ does not have
  bool is_printing = false;        // -mllvm -print-...: LLVM shows its code as it compiles
  std::string definitions;         // -D and -U as text; it follows our own headers, whose names it must not change
};

// Returns false, and a message that names the option, if an option is not known. The target options
// (--gpu-architecture, --offload-arch, ...) are accepted and ignored, because there is one target.
bool read_options(const std::vector<std::string> &given, Options *out, std::string *message);

}  // namespace cpu
