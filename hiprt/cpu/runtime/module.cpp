#include "runtime/module.h"

#include "engine/code_object.h"
#include "runtime/device.h"
#include "runtime/device_text.h"
#include "runtime/memory.h"

namespace cpu {
namespace {

Registry<hipFunction_t, Function> &functions() {
  static auto &all = *new Registry<hipFunction_t, Function>;
  return all;
}

}  // namespace

Registry<hipModule_t, LoadedModule> &modules() {
  static auto &all = *new Registry<hipModule_t, LoadedModule>;
  return all;
}

hipError_t load_image(hipModule_t *out, const void *image) {
  if (!out || !image) return hipErrorInvalidValue;
  std::unique_ptr<Module> loaded;
  std::string fitting;
  if (image_for_here(image, &fitting)) image = fitting.data();
  if (const hipError_t error = load_module(image, &loaded)) return error;
  auto entry = std::make_shared<LoadedModule>();
  entry->module = std::move(loaded);
  entry->device = current_device();
  for (const std::unique_ptr<Kernel> &kernel : entry->module->kernels) {
    auto function = std::make_shared<Function>(Function{kernel.get(), entry->module, entry->device});
    entry->functions.push_back(functions().add(std::move(function)));
  }
  for (const Global &global : entry->module->globals) {
    show(global.address, global.size, MemoryKind::Module, entry->device, 0, nullptr);
  }
  *out = modules().add(std::move(entry));
  return hipSuccess;
}

hipError_t unload_module(hipModule_t module) {
  const std::shared_ptr<LoadedModule> entry = modules().remove(module);
  if (!entry) return module ? hipErrorNotFound : hipErrorInvalidHandle;
  for (hipFunction_t function : entry->functions) functions().remove(function);
  for (const Global &global : entry->module->globals) hide(global.address);
  return hipSuccess;
}

std::shared_ptr<Function> function_of(hipFunction_t handle) { return functions().find(handle); }

void unload_modules(int device) {
  for (hipModule_t handle : modules().handles()) {
    const std::shared_ptr<LoadedModule> entry = modules().find(handle);
    if (entry && entry->device == device) unload_module(handle);
  }
}

}  // namespace cpu
