// Overlap of a kernel with the one before it, where the device has such a thing (programmatic dependent launch of compute
// capability 9.0). Kernels that are declared with `ahead` call both, in every thread.
namespace metal {
namespace hiprt {

// Nothing that an earlier kernel wrote may be read before this, and nothing may be written.
HIPRT_INLINE void wait_for_inputs() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The next kernel may be brought onto the device; it waits for this one's end by itself.
HIPRT_INLINE void begin_next() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace hiprt
using namespace hiprt;
}  // namespace metal
