// Launches of kernels in the host part of a program for hipcc: what clang makes of <<<>>>, and HIP's other forms.
#pragma once
#pragma GCC system_header

extern "C" {
unsigned __hipPushCallConfiguration(dim3 grid, dim3 block, size_t shared = 0, hipStream_t stream = nullptr);
hipError_t __hipPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, hipStream_t *stream);
}

#define hipLaunchKernelGGLInternal(kernel, grid, block, shared, stream, ...) \
  do {                                                                       \
    kernel<<<(grid), (block), (shared), (stream)>>>(__VA_ARGS__);            \
  } while (0)
#define hipLaunchKernelGGL(kernel, ...) hipLaunchKernelGGLInternal((kernel), __VA_ARGS__)
