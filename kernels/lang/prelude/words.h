// The last part of the prelude: precise:: and fast::, and Metal's address-space words, which HIP does not have. Nothing after
// this may say __device__, which expands to an attribute named device.
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

#if HIPRT_TARGET_CPU
#define HIPRT_SHARED static thread_local  // this is __shared__ without a check that refuses vectors
#else
#define HIPRT_SHARED __shared__
#endif
#if defined(__clang__)
#define HIPRT_UNROLL _Pragma("clang loop unroll(full)")
#elif HIPRT_TARGET_NVIDIA
#define HIPRT_UNROLL _Pragma("unroll")
#else
#define HIPRT_UNROLL
#endif
// A body begins with this, because a pragma for a function's arithmetic belongs there.
#if defined(HIPRT_RELAXED_MATH) && defined(__clang__)
#define HIPRT_MATH_MODE _Pragma("clang fp reassociate(on) contract(fast)")
#else
#define HIPRT_MATH_MODE
#endif
#define HIPRT_BODY static inline __attribute__((always_inline))
#define device
#define constant
#define thread
#define threadgroup

#if defined(__clang__) && !HIPRT_TARGET_CPU
#pragma clang force_cuda_host_device begin
#endif
