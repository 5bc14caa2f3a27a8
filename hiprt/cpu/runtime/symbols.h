// What the host part of a program for hipcc names: its kernels and variables, by addresses in that program. Their device part is
// a fat binary, which is loaded on a device at the first use of any of them there.
#pragma once

#include <cstddef>

#include "hip/hip_runtime_api.h"

namespace cpu {

struct FatBinary;

// Notes a fat binary; its image stays the program's. The names are those in the image.
FatBinary *add_fat_binary(const void *image);
void remove_fat_binary(FatBinary *binary);
void add_host_function(FatBinary *binary, const void *host, const char *name);
void add_host_variable(FatBinary *binary, const void *host, const char *name, size_t size);
// Gives a __managed__ variable its memory, and the program's pointer that address.
hipError_t add_managed_variable(FatBinary *binary, void **pointer, const void *initial, const char *name, size_t size,
                                size_t align);

// Gives the handle that a kernel has on the current device. hipErrorInvalidDeviceFunction: no program has told of such a kernel.
hipError_t find_host_function(const void *host, hipFunction_t *out);
// Gives a variable on the current device. hipErrorInvalidSymbol: no program has told of it.
hipError_t find_symbol(const void *host, void **address, size_t *size);

}  // namespace cpu
