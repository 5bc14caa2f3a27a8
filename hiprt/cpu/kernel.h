// A loaded code object and its kernels, and how one kernel is executed on the host's cores.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hip/hip_runtime_api.h"

namespace cpu {

struct Param {
  uint32_t offset;  // in the kernel-argument block, bytes
  uint32_t size;    // bytes
};

struct Module;

struct Kernel {
  std::string name;
  std::vector<Param> params;
  uint32_t kernarg_size;
  uint32_t static_shared;   // bytes of __shared__ arrays
  uint32_t max_threads;     // from __launch_bounds__, else 1024
  const Module *module;
  const void *entry;        // meaning known to engine.cpp and the device prelude only
};

struct Global {
  std::string name;
  void *address;
  size_t size;
};

// What hipModule_t points to.
struct Module {
  virtual ~Module() = default;
  std::vector<std::unique_ptr<Kernel>> kernels;
  std::vector<Global> globals;  // __device__ and __constant__ variables with C linkage names
};

// Load an image that our hiprtc made. The image is copied; it carries its own length (ELF headers).
// hipErrorInvalidImage: not an ELF file; hipErrorNoBinaryForGpu: an ELF file for another machine (AMD code object, PTX).
hipError_t load_module(const void *image, std::unique_ptr<Module> *out);

// Execute every block of the grid; returns when all are done. Called on the device thread only; spreads blocks over the
// cores. kernarg: at least kernel.kernarg_size bytes. A fault in the kernel is reported, never swallowed.
hipError_t run_kernel(const Kernel &kernel, dim3 grid, dim3 block, uint32_t dynamic_shared, const void *kernarg);

}  // namespace cpu
