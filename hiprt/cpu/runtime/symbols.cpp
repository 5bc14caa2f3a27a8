#include "runtime/symbols.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/device.h"
#include "runtime/memory.h"
#include "runtime/module.h"

namespace cpu {

struct FatBinary {
  const void *image;
  std::map<int, hipModule_t> modules;  // by device; hipDeviceReset ends the handles
  std::vector<const void *> own;       // the host addresses that belong to it
};

namespace {

struct Named {
  FatBinary *binary;
  std::string name;
  size_t size;                // of a variable
  void *managed = nullptr;    // the memory of a __managed__ variable, the same for all devices
};

struct Table {
  std::recursive_mutex lock;
  std::vector<std::unique_ptr<FatBinary>> binaries;
  std::unordered_map<const void *, Named> functions, variables;
};

// It is never destroyed, because programs take their fat binaries back while the process exits.
Table &table() {
  static auto &all = *new Table;
  return all;
}

using Lock = std::lock_guard<std::recursive_mutex>;

const Global *find_global(const LoadedModule &module, const std::string &name) {
  const auto &all = module.module->globals;
  const auto found = std::find_if(all.begin(), all.end(), [&](const Global &g) { return g.name == name; });
  return found == all.end() ? nullptr : &*found;
}

// Tells the device part where the memory of its __managed__ variables is.
void set_managed(const FatBinary *binary, const LoadedModule &module) {
  for (const auto &[host, variable] : table().variables) {
    const Global *global = variable.binary == binary && variable.managed ? find_global(module, variable.name) : nullptr;
    if (global && global->pointer) *global->pointer = variable.managed;
  }
}

// Gives the fat binary's module on the current device.
hipError_t load(FatBinary *binary, std::shared_ptr<LoadedModule> *out) {
  hipModule_t &handle = binary->modules[current_device()];
  *out = handle ? modules().find(handle) : nullptr;
  if (*out) return hipSuccess;
  if (const hipError_t error = load_image(&handle, binary->image)) return error;
  *out = modules().find(handle);
  set_managed(binary, **out);
  return hipSuccess;
}

}  // namespace

FatBinary *add_fat_binary(const void *image) {
  const Lock hold(table().lock);
  table().binaries.push_back(std::make_unique<FatBinary>(FatBinary{image, {}, {}}));
  return table().binaries.back().get();
}

void remove_fat_binary(FatBinary *binary) {
  const Lock hold(table().lock);
  auto &all = table().binaries;
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto &one) { return one.get() == binary; });
  if (found == all.end()) return;
  for (const void *host : binary->own) table().functions.erase(host), table().variables.erase(host);
  for (const auto &[device, module] : binary->modules) unload_module(module);
  all.erase(found);
}

void add_host_function(FatBinary *binary, const void *host, const char *name) {
  const Lock hold(table().lock);
  binary->own.push_back(host);
  table().functions[host] = {binary, name, 0};
}

void add_host_variable(FatBinary *binary, const void *host, const char *name, size_t size) {
  const Lock hold(table().lock);
  binary->own.push_back(host);
  table().variables[host] = {binary, name, size};
}

hipError_t add_managed_variable(FatBinary *binary, void **pointer, const void *initial, const char *name, size_t size,
                                size_t align) {
  const size_t unit = std::max(align, kMemoryAlignment);
  void *const memory = std::aligned_alloc(unit, (size + unit - 1) / unit * unit);
  if (!memory) return hipErrorOutOfMemory;
  std::memcpy(memory, initial, size);
  show(memory, size, MemoryKind::Module, 0, 0, nullptr);
  *pointer = memory;
  add_host_variable(binary, pointer, name, size);
  const Lock hold(table().lock);
  table().variables[pointer].managed = memory;
  return hipSuccess;
}

hipError_t find_host_function(const void *host, hipFunction_t *out) {
  const Lock hold(table().lock);
  const auto found = table().functions.find(host);
  if (found == table().functions.end()) return hipErrorInvalidDeviceFunction;
  std::shared_ptr<LoadedModule> module;
  if (const hipError_t error = load(found->second.binary, &module)) return error;
  const auto &kernels = module->module->kernels;
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (kernels[i]->name != found->second.name) continue;
    *out = module->functions[i];
    return hipSuccess;
  }
  std::fprintf(stderr, "hiprt: the device part of this program has no kernel %s\n", found->second.name.c_str());
  return hipErrorInvalidDeviceFunction;
}

hipError_t find_symbol(const void *host, void **address, size_t *size) {
  const Lock hold(table().lock);
  auto found = table().variables.find(host);
  if (found == table().variables.end()) {
    // Host code names a __managed__ variable by what its pointer points to.
    found = std::find_if(table().variables.begin(), table().variables.end(),
                         [&](const auto &one) { return host && one.second.managed == host; });
  }
  if (found == table().variables.end()) return hipErrorInvalidSymbol;
  *size = found->second.size;
  if ((*address = found->second.managed)) return hipSuccess;
  std::shared_ptr<LoadedModule> module;
  if (const hipError_t error = load(found->second.binary, &module)) return error;
  const Global *global = find_global(*module, found->second.name);
  if (!global) return hipErrorInvalidSymbol;
  *address = global->address;
  return hipSuccess;
}

}  // namespace cpu
