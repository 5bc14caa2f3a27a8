// Building a HIP program: from source text to a code object.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "compile/cache.h"
#include "compile/options.h"

namespace cpu {

struct Program {
  std::string name, source;
  std::vector<std::pair<std::string, std::string>> headers;  // include name, text
  std::vector<std::string> expressions;                      // name expressions
  Options options;
};

// From the cache or by the best compiler there is. False with the reason in out->log.
bool build_program(const Program &program, Built *out);

}  // namespace cpu
