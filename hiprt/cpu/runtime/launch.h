// Kernel launches: arguments taken by value, limits checked.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/module.h"
#include "runtime/work.h"

namespace cpu {

struct Geometry {
  dim3 grid;
  dim3 block;
  uint32_t shared;  // dynamic, bytes
};

uint32_t threads_of(const dim3 &block);
// Blocks of this many threads that one multiprocessor would hold at a time.
uint32_t resident_blocks(const Kernel &kernel, uint32_t threads, size_t dynamic_shared);

struct KernelWork : Work {
  KernelWork(Function f, Geometry g);
  hipError_t run() override;
  bool poison() const override;
  std::shared_ptr<Work> clone() const override;
  // The kernel-argument block.
  std::byte *arguments() const;
  // Where argument i lies in the block: pointers to these are what hipGraphKernelNodeGetParams returns.
  void *argument(size_t i) const { return arguments() + function.kernel->params[i].offset; }
  // Copy the arguments in, from kernelParams or from extra. hipErrorInvalidValue: both, or neither though needed.
  hipError_t take_arguments(void **kernelParams, void **extra);
  // For params_by_pointer: the application's array, which HIP up to 5.2 reads when it launches.
  void refer_to(void **kernelParams) { caller_ = kernelParams; }

  const Function function;
  Geometry geometry;

 private:
  bool is_as_given() const;

  void **caller_ = nullptr;
  std::vector<std::byte> storage_;  // with room to align the block in it: cheaper than aligned memory
};

// Whether the kernel may be launched like this: the status a launch returns.
hipError_t check_geometry(const Kernel &kernel, const Geometry &geometry);

// Find, check and copy: the whole of a launch but its queueing. limits: whose limits are checked, if not the
// function's own.
hipError_t make_launch(const void *func, const Geometry &geometry, void **kernelParams, void **extra,
                       std::shared_ptr<KernelWork> *out, const Kernel *limits = nullptr);

}  // namespace cpu
