// What hiprt hipcc (hiprt/hipcc.py) asks: it is no function of HIP.
#include <string>

#include "compile/compiler.h"

using namespace cpu;

// The command that the host part of a program for hipcc is compiled by, a word a line; null if no compiler here has clang's HIP
// mode.
extern "C" __attribute__((visibility("default"))) const char *hiprtCpuHipCommand() {
  thread_local std::string words;
  for (const Compiler &compiler : find_compilers()) {
    std::string why;
    if (!knows_hip(compiler) || !works(compiler, &why)) continue;
    words.clear();
    for (const std::string &word : hip_command(compiler)) words += word + "\n";
    return words.c_str();
  }
  return nullptr;
}
