// The registry of all memory that this library handed out or was told of, by address range.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "hip/hip_runtime_api.h"
#include "runtime/shared_memory.h"

namespace cpu {

enum class MemoryKind {
  Device,      // hipMalloc and its kin
  Managed,     // hipMallocManaged
  Host,        // hipHostMalloc
  Registered,  // the caller's own, made known by hipHostRegister
  Pool,        // a stream-ordered allocation, in memory that a pool or a graph holds
  Module,      // a __device__ variable, in a loaded module
  Mapped,      // memory that hipMemMap gave an address
  Imported,    // another process's, by hipIpcOpenMemHandle
};

// What hipMallocPitch and its kin were asked for, in bytes and rows, and the pitch that they gave; zeros for other memory.
struct PitchedShape {
  size_t pitch, width, height;
};

// A known range of addresses.
struct Allocation {
  void *base;
  size_t size;
  MemoryKind kind;
  int device;
  unsigned flags;
  hipMemPool_t pool;      // the pool that a MemoryKind::Pool is of
  unsigned long long id;  // never used twice
  PitchedShape shape;
  bool syncs = false;  // HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS
};

constexpr size_t kMemoryAlignment = 256;
size_t round_to_alignment(size_t size);

// Returns whether memory of this kind counts against the device's size, as host memory does not.
bool is_device_memory(MemoryKind kind);

// Allocates and frees raw device memory, which is aligned and counts against the device's size. The registry does not
// show it: pools divide it. hipErrorOutOfMemory: the device's size does not suffice.
hipError_t reserve(int device, size_t size, void **out);
void unreserve(int device, void *base, size_t size);
// Allocates raw device memory as reserve() does, in pages of a file that other processes can map.
hipError_t reserve_shared(int device, size_t size, void **out);
// Counts memory against the device's size that it does not allocate here; false if it does not fit.
bool count_memory(int device, size_t size);
void uncount_memory(int device, size_t size);
// Returns the bytes that each device has.
size_t memory_size();
// Returns the bytes of a device that are taken.
size_t reserved_bytes(int device);

// Shows an address range to queries and range checks, or hides it again. The caller owns the memory itself.
void show(void *base, size_t size, MemoryKind kind, int device, unsigned flags, hipMemPool_t pool);
bool hide(void *base);
void note_shape(void *base, const PitchedShape &shape);
void note_syncs(void *base, bool syncs);
// Shows a range unless a part of it is known already; false if so.
bool show_unknown(void *base, size_t size, MemoryKind kind, int device, unsigned flags);
// Hides and returns the allocation that starts at base, if its kind passes the test. Of two threads that free one, one
// gets it.
using KindTest = bool (*)(MemoryKind);
std::optional<Allocation> take_allocation(const void *base, KindTest wanted);
// Returns the file under an allocation of MemoryKind::Device, which it gets if it has none and keeps until it is freed;
// null if the system refuses. Memory of reserve_shared() has one.
std::shared_ptr<MemoryFile> share_memory(const Allocation &allocation);
// Gives the memory of a hidden allocation back.
void release(const Allocation &allocation);

// Returns the allocation that an address lies in.
std::optional<Allocation> find_allocation(const void *address);
// Returns false if the range starts inside a known allocation and leaves it, or has a size and starts at null.
bool in_bounds(const void *address, size_t size);
// Returns whether an address is in host memory that the library does not know. Asynchronous copies must not touch such
// memory after the call returns.
bool is_pageable(const void *address);
// Returns whether an address is in the host's memory, pageable or not.
bool is_host_memory(const void *address);

// Frees all memory of the device but that of pools and graphs; for hipDeviceReset.
void free_all(int device);

}  // namespace cpu
