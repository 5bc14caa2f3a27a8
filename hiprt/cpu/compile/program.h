// Builds a HIP program: from source text to a code object.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "compile/cache.h"
#include "compile/options.h"

namespace cpu {

struct Program {
  std::string name, source;
  std::vector<std::pair<std::string, std::string>> headers;  // name in #include, and text
  std::vector<std::string> expressions;                      // name expressions
  Options options;
};

// Takes the program from the cache, or builds it with the best compiler there is. False, and out->log says why, if
// neither works.
bool build_program(const Program &program, Built *out);

// Makes a code object of the bitcode of programs that were built with is_linked. False, and out->log says why, if a function
// is missing or is there twice.
bool link_programs(const std::vector<std::string> &bitcodes, Built *out);

}  // namespace cpu
