// The code object: a shared library in memory, made by hiprtc, with a table of its kernels (include/cpu_abi.h).
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>

#include "include/cpu_abi.h"
#include "kernel.h"

namespace cpu {

// What Kernel::entry points to.
struct KernelCode {
  void (*run)(const unsigned char *arguments, unsigned count);
  bool synchronises;  // false: its threads can be run one after the other, in one loop
  mutable std::atomic<float> block_ns{0};  // time of one block on one core as last measured (engine.cpp), 0: never
};

// load_module, with the reason for a failure and the lowered names of the program's name expressions.
hipError_t load_object(const void *image, std::unique_ptr<Module> *out, std::map<std::string, std::string> *lowered,
                       std::string *why);

}  // namespace cpu
