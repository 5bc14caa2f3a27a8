// The registry of all memory this library handed out or was told of, by address range.
#pragma once

#include <cstddef>
#include <optional>

#include "hip/hip_runtime_api.h"

namespace cpu {

enum class MemoryKind {
  Device,      // hipMalloc and its kin
  Managed,     // hipMallocManaged
  Host,        // hipHostMalloc
  Registered,  // the caller's own, hipHostRegister
  Pool,        // a stream-ordered allocation: lives in memory that a pool holds
  Module,      // a __device__ variable: lives in a loaded module
};

struct Allocation {
  void *base;
  size_t size;
  MemoryKind kind;
  int device;
  unsigned flags;
  hipMemPool_t pool;    // of MemoryKind::Pool
  unsigned long long id;  // never used twice
};

constexpr size_t kMemoryAlignment = 256;
size_t round_to_alignment(size_t size);

// Whether memory of this kind counts against the device's size: host memory is not the device's.
bool is_device_memory(MemoryKind kind);

// Raw device memory (aligned, counted against the device's size) that the registry does not show: pools divide it.
// hipErrorOutOfMemory beyond the limit.
hipError_t reserve(int device, size_t size, void **out);
void unreserve(int device, void *base, size_t size);
// Bytes of a device that are taken.
size_t reserved_bytes(int device);

// Show an address range to queries and range checks, or hide it again. The memory itself is the caller's affair.
void show(void *base, size_t size, MemoryKind kind, int device, unsigned flags, hipMemPool_t pool);
bool hide(void *base);
// Shows a range unless a part of it is known already.
bool show_unknown(void *base, size_t size, MemoryKind kind, int device, unsigned flags);
// Hides the allocation that starts at base, if its kind passes the test: of two threads that free it one wins.
using KindTest = bool (*)(MemoryKind);
std::optional<Allocation> take_allocation(const void *base, KindTest wanted);
// Gives the memory of a hidden allocation back.
void release(const Allocation &allocation);

// The allocation an address lies in.
std::optional<Allocation> find_allocation(const void *address);
// False if the range starts inside a known allocation and leaves it, or starts at null with a size.
bool in_bounds(const void *address, size_t size);
// True for host memory the library does not know: asynchronous copies must not touch it after the call returns.
bool is_pageable(const void *address);

// hipDeviceReset: free everything of the device, pools excepted.
void free_all(int device);

}  // namespace cpu
