// Scans a HIP program's text for what must be known before it is compiled: its kernels and dynamic shared arrays.
#pragma once

#include <string>
#include <vector>

namespace cpu {

struct ScannedKernel {
  std::string name;        // fully qualified, with template arguments if it is an instantiation
  std::string parameters;  // as written, between the parentheses
  std::string bounds;      // the first argument of __launch_bounds__, or empty
  std::string scope;       // the namespaces around it, "a::b"
};

struct Scan {
  std::vector<ScannedKernel> kernels;        // functions with a body and instantiations; no bare templates
  std::vector<std::string> dynamic_shared;   // symbol names of `extern __shared__` arrays
  std::vector<std::string> files;            // every file that was read
};

// Scans the output of the preprocessor, which has read cpu_scan.h.
Scan scan_preprocessed(const std::string &text);

// Gives each kernel of a source text its own copy of the indices (cpu_language.h), which makes it faster and changes
// nothing else.
std::string insert_local_indices(const std::string &text);

}  // namespace cpu
