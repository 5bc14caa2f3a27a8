// AMD's extensions of launches in programs for hipcc.
#pragma once

#ifdef __HIPRT_HIPCC__
#include <tuple>
#include <utility>

#include "hip/hip_runtime.h"

#define hipExtAnyOrderLaunch 0x01

// Launches a kernel with events before and after it. The arguments are converted to the types of the kernel's parameters.
template <typename... Parameters, typename... Args>
inline void hipExtLaunchKernelGGL(void (*kernel)(Parameters...), const dim3 &grid, const dim3 &block, uint32_t shared,
                                  hipStream_t stream, hipEvent_t start, hipEvent_t stop, uint32_t flags, Args... args) {
  static_assert(sizeof...(Parameters) == sizeof...(Args), "a kernel is launched with as many arguments as it has parameters");
  std::tuple<Parameters...> values(static_cast<Parameters>(args)...);
  std::apply(
      [&](auto &...each) {
        void *pointers[] = {static_cast<void *>(&each)..., nullptr};
        (void)hipExtLaunchKernel(reinterpret_cast<const void *>(kernel), grid, block, pointers, shared, stream, start, stop,
                                 int(flags));
      },
      values);
}
#endif
