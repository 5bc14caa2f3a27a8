// Kernel launches. Arguments are taken by value, and limits are checked, when the work is made.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/module.h"
#include "runtime/work.h"

namespace cpu {

// The shape of a launch.
struct Geometry {
  dim3 grid;
  dim3 block;
  uint32_t shared;  // bytes of dynamic shared memory
};

// Returns how many threads a block of this shape has. It must be known to fit, as the product could wrap around.
uint32_t threads_of(const dim3 &block);
// Returns how many blocks of this many threads one multiprocessor would hold at a time.
uint32_t resident_blocks(const Kernel &kernel, uint32_t threads, size_t dynamic_shared);

// A launch of a kernel, with a kernel-argument block of its own.
struct KernelWork : Work {
  KernelWork(Function f, Geometry g);
  hipError_t run() override;
  bool poison() const override;
  std::shared_ptr<Work> clone() const override;
  // Returns the kernel-argument block.
  std::byte *arguments() const;
  // Returns where argument i lies in the block; hipGraphKernelNodeGetParams hands out these pointers.
  void *argument(size_t i) const { return arguments() + function.kernel->params[i].offset; }
  // Copies the arguments in, from kernelParams or from extra. hipErrorInvalidValue: both are given, or neither though
  // the kernel has parameters.
  hipError_t take_arguments(void **kernelParams, void **extra);
  // Notes the application's array, for the quirk params_by_pointer: HIP up to 5.2 reads it at the launch.
  void refer_to(void **kernelParams) { caller_ = kernelParams; }
  // Returns whether the device has room for all blocks at a time.
  bool fits_at_once() const;

  const Function function;
  Geometry geometry;
  bool is_cooperative = false;  // the kernel may use the grid's barrier
  size_t packed = 0;  // bytes of `extra`, where the arguments were passed like that

 private:
  bool is_as_given() const;

  void **caller_ = nullptr;
  std::vector<std::byte> storage_;  // with room to align the block in it, which is cheaper than aligned memory
};

// Returns the status of a launch of the kernel with this geometry.
hipError_t check_geometry(const Kernel &kernel, const Geometry &geometry);

// Finds the function, checks the geometry and copies the arguments: the whole of a launch but its queueing. `limits` is
// the kernel whose limits count, if not the function's own.
hipError_t make_launch(const void *func, const Geometry &geometry, void **kernelParams, void **extra,
                       std::shared_ptr<KernelWork> *out, const Kernel *limits = nullptr);

}  // namespace cpu
