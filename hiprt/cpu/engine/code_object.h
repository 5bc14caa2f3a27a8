// The code object: a shared library in memory, made by hiprtc, with a table of its kernels (include/cpu_abi.h).
#pragma once

#include <map>
#include <memory>
#include <string>

#include "engine/kernel.h"
#include "hip/hip_runtime_api.h"

namespace cpu {

// Load an image that our hiprtc made. The image is copied; it carries its own length (ELF headers).
// hipErrorInvalidImage: it is not an ELF file; hipErrorNoBinaryForGpu: it is meant for another machine (AMD code object,
// PTX).
hipError_t load_module(const void *image, std::unique_ptr<Module> *out);

// Does the same, and tells the reason for a failure and the lowered names of the program's name expressions.
hipError_t load_object(const void *image, std::unique_ptr<Module> *out, std::map<std::string, std::string> *lowered,
                       std::string *why);

}  // namespace cpu
