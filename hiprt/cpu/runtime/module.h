// Modules: loaded code objects and the handles of their functions.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/kernel.h"
#include "hip/hip_runtime_api.h"

namespace cpu {

// What hipModule_t and hipLibrary_t stand for.
struct LoadedModule {
  std::shared_ptr<Module> module;
  int device;
  std::vector<hipFunction_t> functions;  // one for each kernel, in their order
};

// Unload every module of a device (hipDeviceReset).
void unload_modules(int device);

}  // namespace cpu
