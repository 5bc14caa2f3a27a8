// Entry points by name: hipGetProcAddress and hipGetDriverEntryPoint, which look them up in this library.
#include <dlfcn.h>

#include <cstring>
#include <string>

#include "runtime/status.h"

namespace cpu {
namespace {

// Returns this library, and not another HIP library that the process may have mapped.
void *self() {
  static void *const handle = [] {
    Dl_info info{};
    if (!dladdr(reinterpret_cast<void *>(&hipInit), &info)) return static_cast<void *>(nullptr);
    return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }();
  return handle;
}

// Returns the symbol of a function. Those whose parameter block changed in HIP 6 have its version in the symbol.
const char *versioned(const char *name) {
  if (std::strcmp(name, "hipGetDeviceProperties") == 0) return "hipGetDevicePropertiesR0600";
  if (std::strcmp(name, "hipChooseDevice") == 0) return "hipChooseDeviceR0600";
  return name;
}

void *find(const char *name) {
  void *found = self() ? dlsym(self(), versioned(name)) : nullptr;
  // dlsym also searches the libraries that this one depends on.
  Dl_info own{};
  Dl_info other{};
  const bool mine = found && dladdr(found, &other) && dladdr(reinterpret_cast<void *>(&hipInit), &own) &&
                    own.dli_fbase == other.dli_fbase;
  return mine ? found : nullptr;
}

// The form whose null stream is the calling thread's own, of functions that have one.
void *find_per_thread(const char *name) {
  void *found = find((std::string(name) + "_spt").c_str());
  return found ? found : find(name);
}

hipError_t entry_point(void *(*look)(const char *), const char *symbol, void **function,
                       hipDriverEntryPointQueryResult *result) {
  if (!symbol || !*symbol || !function) return hipErrorInvalidValue;
  *function = look(symbol);
  if (result) *result = *function ? hipDriverEntryPointSuccess : hipDriverEntryPointSymbolNotFound;
  return *function ? hipSuccess : hipErrorNotFound;
}

}  // namespace
}  // namespace cpu

using namespace cpu;

hipError_t hipGetProcAddress(const char *symbol, void **function, int version, uint64_t,
                             hipDriverProcAddressQueryResult *result) {
  return api([&] {
    if (!symbol || !*symbol || !function) return hipErrorInvalidValue;
    const bool too_new = version > HIP_VERSION;
    *function = too_new ? nullptr : find(symbol);
    if (result) {
      *result = *function ? HIP_GET_PROC_ADDRESS_SUCCESS
                : too_new ? HIP_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                          : HIP_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    }
    return *function ? hipSuccess : too_new ? hipErrorInvalidValue : hipErrorNotFound;
  });
}

hipError_t hipGetDriverEntryPoint(const char *symbol, void **function, unsigned long long,
                                  hipDriverEntryPointQueryResult *result) {
  return api([&] { return entry_point(find, symbol, function, result); });
}

hipError_t hipGetDriverEntryPoint_spt(const char *symbol, void **function, unsigned long long,
                                      hipDriverEntryPointQueryResult *result) {
  return api([&] { return entry_point(find_per_thread, symbol, function, result); });
}
