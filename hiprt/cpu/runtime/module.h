// Modules: loaded code objects and the handles of their functions.
#pragma once

#include <memory>
#include <vector>

#include "engine/kernel.h"
#include "hip/hip_runtime_api.h"
#include "registry.h"

namespace cpu {

// What a hipModule_t or hipLibrary_t stands for.
struct LoadedModule {
  std::shared_ptr<Module> module;
  int device;
  std::vector<hipFunction_t> functions;  // one for each kernel, in their order
};

// What a hipFunction_t or hipKernel_t stands for. The module stays loaded while a launch or a node refers to it.
struct Function {
  const Kernel *kernel;
  std::shared_ptr<Module> module;
  int device;
  const void *handle = nullptr;  // the application's name for it, set by find_function
};

// The live modules, behind their handles.
Registry<hipModule_t, LoadedModule> &modules();
hipError_t load_image(hipModule_t *out, const void *image);
// Ends the handles of a module and its functions. The code stays until the last queued launch or graph node lets go of
// it.
hipError_t unload_module(hipModule_t module);
// Returns the function behind a handle; null for anything else.
std::shared_ptr<Function> function_of(hipFunction_t handle);
// Unloads every module of a device; for hipDeviceReset.
void unload_modules(int device);

}  // namespace cpu
