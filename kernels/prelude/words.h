// Last of the prelude: precise:: and fast::, and Metal's address-space words, which HIP does without. From here on
// __device__ must not be written: it expands to an attribute named device.
namespace metal {
#define HIPRT_VARIANT(space)                                                                                  \
  namespace space {                                                                                           \
  using metal::ceil; using metal::cos; using metal::exp; using metal::exp2; using metal::fabs;                \
  using metal::floor; using metal::fma; using metal::log; using metal::log10; using metal::log2;              \
  using metal::pow; using metal::rint; using metal::round; using metal::rsqrt; using metal::sin;              \
  using metal::sqrt; using metal::trunc;                                                                      \
  }
HIPRT_VARIANT(precise)
HIPRT_VARIANT(fast)
#undef HIPRT_VARIANT
}  // namespace metal

#define HIPRT_SHARED __shared__
#define device
#define constant
#define thread
#define threadgroup

#if defined(__clang__) && !HIPRT_TARGET_CPU
#pragma clang force_cuda_host_device begin
#endif
