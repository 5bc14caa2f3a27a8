// HIP's functions of modules and libraries, and of the kernels and variables in them.
#include <algorithm>
#include <cstring>
#include <elf.h>
#include <fstream>
#include <iterator>
#include <vector>

#include "quirks/quirks.h"
#include "runtime/function.h"
#include "runtime/module.h"
#include "runtime/status.h"

namespace cpu {
namespace {

// Returns whether an ELF image that came from a file is complete: its last part is the table of sections.
bool is_complete(const std::vector<char> &image) {
  Elf64_Ehdr header;
  if (image.size() < sizeof(header)) return false;
  std::memcpy(&header, image.data(), sizeof(header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return true;  // for load_module to judge
  const size_t table = size_t{header.e_shnum} * header.e_shentsize;
  return header.e_shoff <= image.size() && table <= image.size() - header.e_shoff;
}

hipError_t load_file(hipModule_t *out, const char *path) {
  if (!out || !path || !*path) return hipErrorInvalidValue;
  std::ifstream file(path, std::ios::binary);
  if (!file) return hipErrorFileNotFound;
  const std::vector<char> image{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return is_complete(image) ? load_image(out, image.data()) : hipErrorInvalidImage;
}

hipError_t find_kernel(hipFunction_t *out, hipModule_t module, const char *name) {
  if (!out || !name || !*name) return hipErrorInvalidValue;
  const std::shared_ptr<LoadedModule> entry = modules().find(module);
  if (!entry) return hipErrorInvalidHandle;
  for (size_t i = 0; i < entry->functions.size(); ++i) {
    if (entry->module->kernels[i]->name == name) {
      *out = entry->functions[i];
      return hipSuccess;
    }
  }
  return hipErrorNotFound;
}

hipError_t find_global(hipDeviceptr_t *address, size_t *size, hipModule_t module, const char *name) {
  if (!name || (!address && !size)) return hipErrorInvalidValue;
  const std::shared_ptr<LoadedModule> entry = modules().find(module);
  if (!entry) return hipErrorInvalidHandle;
  for (const Global &global : entry->module->globals) {
    if (global.name != name) continue;
    if (address) *address = global.address;
    if (size) *size = global.size;
    return hipSuccess;
  }
  return hipErrorNotFound;
}

hipError_t count_kernels(unsigned *count, hipModule_t module) {
  const std::shared_ptr<LoadedModule> entry = modules().find(module);
  if (!entry) return hipErrorInvalidHandle;
  if (!count) return hipErrorInvalidValue;
  *count = static_cast<unsigned>(entry->functions.size());
  return hipSuccess;
}

// hipLibrary_t and hipKernel_t are the same objects under other names.
hipModule_t as_module(hipLibrary_t library) { return reinterpret_cast<hipModule_t>(library); }

hipModule_t *as_module(hipLibrary_t *library) { return reinterpret_cast<hipModule_t *>(library); }

hipFunction_t as_function(hipKernel_t kernel) { return reinterpret_cast<hipFunction_t>(kernel); }

hipError_t library_of(hipLibrary_t *out, hipKernel_t kernel) {
  if (!out) return hipErrorInvalidValue;
  for (hipModule_t handle : modules().handles()) {
    const std::shared_ptr<LoadedModule> entry = modules().find(handle);
    if (!entry) continue;
    const auto &own = entry->functions;
    if (std::find(own.begin(), own.end(), as_function(kernel)) == own.end()) continue;
    *out = reinterpret_cast<hipLibrary_t>(handle);
    return hipSuccess;
  }
  return hipErrorInvalidHandle;
}

}  // namespace
}  // namespace cpu

using namespace cpu;

hipError_t hipModuleLoad(hipModule_t *module, const char *path) {
  return api([&] { return load_file(module, path); });
}

hipError_t hipModuleLoadData(hipModule_t *module, const void *image) {
  return api([&] { return load_image(module, image); });
}

hipError_t hipModuleLoadDataEx(hipModule_t *module, const void *image, unsigned int count, hipJitOption *options,
                               void **values) {
  return api([&] {
    // The image is machine code already, so that options of a second compilation have nothing to act on.
    return count && (!options || !values) ? hipErrorInvalidValue : load_image(module, image);
  });
}

hipError_t hipModuleLoadFatBinary(hipModule_t *module, const void *image) {
  return api([&] { return load_image(module, image); });
}

hipError_t hipModuleUnload(hipModule_t module) {
  return api([&] { return unload_module(module); });
}

hipError_t hipModuleGetFunction(hipFunction_t *function, hipModule_t module, const char *name) {
  return api([&] { return find_kernel(function, module, name); });
}

hipError_t hipModuleGetFunctionCount(unsigned int *count, hipModule_t module) {
  return api([&] { return count_kernels(count, module); });
}

hipError_t hipModuleGetGlobal(hipDeviceptr_t *address, size_t *size, hipModule_t module, const char *name) {
  return api([&] { return find_global(address, size, module, name); });
}

hipError_t hipLibraryLoadData(hipLibrary_t *library, const void *image, hipJitOption *options, void **values,
                              unsigned int count, hipLibraryOption *, void **, unsigned int) {
  return hipModuleLoadDataEx(as_module(library), image, count, options, values);
}

hipError_t hipLibraryLoadFromFile(hipLibrary_t *library, const char *path, hipJitOption *, void **, unsigned int,
                                  hipLibraryOption *, void **, unsigned int) {
  return hipModuleLoad(as_module(library), path);
}

hipError_t hipLibraryUnload(hipLibrary_t library) { return hipModuleUnload(as_module(library)); }

hipError_t hipLibraryGetKernel(hipKernel_t *kernel, hipLibrary_t library, const char *name) {
  return hipModuleGetFunction(reinterpret_cast<hipFunction_t *>(kernel), as_module(library), name);
}

hipError_t hipLibraryGetKernelCount(unsigned int *count, hipLibrary_t library) {
  return hipModuleGetFunctionCount(count, as_module(library));
}

hipError_t hipLibraryEnumerateKernels(hipKernel_t *kernels, unsigned int count, hipLibrary_t library) {
  return api([&] {
    const std::shared_ptr<LoadedModule> entry = modules().find(as_module(library));
    if (!entry) return hipErrorInvalidHandle;
    if (!kernels) return hipErrorInvalidValue;
    for (unsigned i = 0; i < count && i < entry->functions.size(); ++i) {
      kernels[i] = reinterpret_cast<hipKernel_t>(entry->functions[i]);
    }
    return hipSuccess;
  });
}

hipError_t hipLibraryGetGlobal(void **address, size_t *size, hipLibrary_t library, const char *name) {
  return hipModuleGetGlobal(address, size, as_module(library), name);
}

hipError_t hipKernelGetFunction(hipFunction_t *function, hipKernel_t kernel) {
  return api([&] {
    Function found;
    if (!function) return hipErrorInvalidValue;
    if (!find_function(kernel, &found)) return hipErrorInvalidHandle;
    *function = as_function(kernel);
    return hipSuccess;
  });
}

hipError_t hipKernelGetLibrary(hipLibrary_t *library, hipKernel_t kernel) {
  return api([&] { return library_of(library, kernel); });
}

hipError_t hipKernelGetName(const char **name, hipKernel_t kernel) {
  return api([&] {
    Function found;
    if (!name) return hipErrorInvalidValue;
    if (!find_function(kernel, &found)) return hipErrorInvalidHandle;
    *name = found.kernel->name.c_str();
    return hipSuccess;
  });
}

const char *hipKernelNameRef(hipFunction_t function) {
  Function found;
  return find_function(function, &found) ? found.kernel->name.c_str() : nullptr;
}

hipError_t hipKernelGetParamInfo(hipKernel_t kernel, size_t index, size_t *offset, size_t *size) {
  return api([&] {
    Function found;
    if (quirk(Quirk::ParamInfoMissing)) return hipErrorNotSupported;  // ROCm before 7.2 lacks the function
    if (!find_function(kernel, &found)) return hipErrorInvalidHandle;
    if (!offset || index >= found.kernel->params.size()) return hipErrorInvalidValue;
    *offset = found.kernel->params[index].offset;
    if (size) *size = found.kernel->params[index].size;
    return hipSuccess;
  });
}
