// Modules: loaded code objects and the handles of their functions.
#pragma once

#include <memory>
#include <vector>

#include "engine/kernel.h"
#include "hip/hip_runtime_api.h"
#include "registry.h"

namespace cpu {

// What hipModule_t and hipLibrary_t stand for.
struct LoadedModule {
  std::shared_ptr<Module> module;
  int device;
  std::vector<hipFunction_t> functions;  // one for each kernel, in their order
};

// What hipFunction_t (and hipKernel_t) points to. The module stays loaded while a launch or a node refers to it.
struct Function {
  const Kernel *kernel;
  std::shared_ptr<Module> module;
  int device;
  const void *handle = nullptr;  // as the application names it; set by find_function
};

// The live modules.
Registry<hipModule_t, LoadedModule> &modules();
hipError_t load_image(hipModule_t *out, const void *image);
// The code stays until the last queued launch and graph node let go of it.
hipError_t unload_module(hipModule_t module);
// The function behind a handle (hipFunction_t, or the func of hipKernelNodeParams); false for anything else.
bool find_function(const void *handle, Function *out);
// Unload every module of a device (hipDeviceReset).
void unload_modules(int device);

}  // namespace cpu
