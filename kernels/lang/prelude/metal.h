// The prelude of the project's kernels in Metal: the target, and the words of the dialect that Metal lacks.
#include <metal_stdlib>
// Products and sums must not be fused, for the same bits on every target, and Metal has no compile option for that.
#pragma METAL fp contract(off)
#define HIPRT_TARGET_METAL 1
#define HIPRT_TARGET_CPU 0
#define HIPRT_TARGET_NVIDIA 0
#define HIPRT_TARGET_AMD 0
#define HIPRT_CPU_LOOPS 0

namespace metal {
namespace hiprt {

typedef bfloat bfloat16_t;

// N neighbouring elements in memory.
template <typename T, int N>
struct alignas(sizeof(T) * N) pack {
  T values[N];
};

// Metal starts a kernel when those it depends on have finished.
inline void wait_for_inputs() {}
inline void begin_next() {}

inline float mad(float a, float b, float c) { return fma(a, b, c); }

}  // namespace hiprt
using namespace hiprt;
}  // namespace metal
using namespace metal;
