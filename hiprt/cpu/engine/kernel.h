// What launches know of a loaded code object and its kernels.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "check/kernel_check.h"

namespace cpu {

struct Param {
  uint32_t offset;  // in the kernel-argument block, bytes
  uint32_t size;    // bytes
};

// Whether the blocks of a checked kernel may tell each other something (check/kernel_check.h): Apart if its code cannot, or
// did not when it ran.
enum class BlockRelation : uint8_t { Unknown, Apart, Talking };

// The machine code of one kernel.
struct KernelCode {
  void (*run)(const unsigned char *arguments, unsigned count);
  bool synchronises;  // false: one loop can run its threads one after the other
  mutable std::atomic<float> block_ns{0};  // time of one block on one core, as dispatch.cpp measured it; 0: not yet
  mutable std::atomic<BlockRelation> blocks{BlockRelation::Unknown};
};

struct Module;

struct Kernel {
  std::string name;
  std::vector<Param> params;
  uint32_t kernarg_size;
  uint32_t static_shared;  // bytes of __shared__ arrays
  std::vector<SharedPiece> shared_pieces;  // these arrays
  uint32_t max_threads;    // from __launch_bounds__, else 1024
  const Module *module;
  const KernelCode *code;
};

struct Global {
  std::string name;
  void *address;
  size_t size;
  void **pointer = nullptr;  // what device code finds a __managed__ variable by
};

// A loaded code object. It is unloaded when the last reference to it ends.
struct Module {
  virtual ~Module() = default;
  std::vector<std::unique_ptr<Kernel>> kernels;
  uintptr_t code = 0;  // where it begins, while kernels are checked
  std::vector<Global> globals;  // __device__ and __constant__ variables with C linkage names
};

}  // namespace cpu
