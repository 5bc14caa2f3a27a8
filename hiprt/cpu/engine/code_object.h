// The code object: a shared library in memory, made by hiprtc, with a table of its kernels (include/cpu_abi.h).
#pragma once

#include <map>
#include <memory>
#include <string>

#include "engine/kernel.h"
#include "hip/hip_runtime_api.h"

namespace cpu {

// Loads an image that our hiprtc made. The image is copied; its ELF headers tell its length. The result is
// hipErrorInvalidImage for what is no ELF file, hipErrorNoBinaryForGpu for what is meant for another machine (an AMD
// code object, PTX).
hipError_t load_module(const void *image, std::unique_ptr<Module> *out);

// Does the same, and also gives the lowered names of the program's name expressions or the reason for a failure.
hipError_t load_object(const void *image, std::unique_ptr<Module> *out, std::map<std::string, std::string> *lowered,
                       std::string *why);

}  // namespace cpu
