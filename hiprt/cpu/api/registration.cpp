// What clang calls in the host part of a program for hipcc: at its start for all that the device part has, and at <<<>>>.
#include <cstdio>
#include <vector>

#include "hip/hip_runtime_api.h"
#include "runtime/symbols.h"

using namespace cpu;

#define PUBLIC extern "C" __attribute__((visibility("default")))

namespace {

constexpr unsigned kMagic = 0x48495046;  // "HIPF"

// What clang's module constructor hands over (clang/lib/CodeGen/CGCUDANV.cpp).
struct Wrapper {
  unsigned magic, version;
  const void *image;
  void *unused;
};

struct Configuration {
  dim3 grid, block;
  size_t shared;
  hipStream_t stream;
};

// The launches that this thread has begun: the arguments of one may contain another.
std::vector<Configuration> &configurations() {
  thread_local std::vector<Configuration> all;
  return all;
}

void absent(const char *what, const char *name) {
  std::fprintf(stderr, "hiprt: the CPU device has no %s: %s cannot be used\n", what, name ? name : "?");
}

}  // namespace

PUBLIC FatBinary *__hipRegisterFatBinary(const Wrapper *wrapper) {
  return wrapper && wrapper->magic == kMagic ? add_fat_binary(wrapper->image) : nullptr;
}

PUBLIC void __hipUnregisterFatBinary(FatBinary *binary) { remove_fat_binary(binary); }

PUBLIC void __hipRegisterFunction(FatBinary *binary, const void *host, char *, const char *name, unsigned, void *, void *, dim3 *,
                                  dim3 *, int *) {
  if (binary) add_host_function(binary, host, name);
}

PUBLIC void __hipRegisterVar(FatBinary *binary, void *host, char *, const char *name, int, size_t size, int, int) {
  if (binary) add_host_variable(binary, host, name, size);
}

PUBLIC void __hipRegisterManagedVar(FatBinary *binary, void **pointer, void *initial, const char *name, size_t size, unsigned align) {
  if (binary && add_managed_variable(binary, pointer, initial, name, size, align)) absent("memory left", name);
}

PUBLIC void __hipRegisterTexture(FatBinary *, void *, char *, const char *name, int, int, int) { absent("textures", name); }

PUBLIC void __hipRegisterSurface(FatBinary *, void *, char *, const char *name, int, int) { absent("surfaces", name); }

PUBLIC hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t shared, hipStream_t stream) {
  configurations().push_back({grid, block, shared, stream});
  return hipSuccess;
}

PUBLIC hipError_t __hipPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, hipStream_t *stream) {
  if (configurations().empty()) return hipErrorInvalidConfiguration;
  const Configuration &last = configurations().back();
  *grid = last.grid, *block = last.block, *shared = last.shared, *stream = last.stream;
  configurations().pop_back();
  return hipSuccess;
}
