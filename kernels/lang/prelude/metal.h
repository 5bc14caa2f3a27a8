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

// Metal orders memory between threadgroups from version 3.2 on; before that, plans do not ask for it.
inline bool arrives_last(device uint* arrived, uint count, uint thread_index, threadgroup uint* answer) {
#if __METAL_VERSION__ >= 320
  atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device);
  threadgroup_barrier(mem_flags::mem_device);
  if (thread_index == 0) {
    device atomic_uint* counter = (device atomic_uint*)arrived;
    const bool is_last = atomic_fetch_add_explicit(counter, 1u, memory_order_relaxed) == count - 1;
    if (is_last) atomic_store_explicit(counter, 0u, memory_order_relaxed);
    *answer = is_last;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device);
  return *answer != 0;
#else
  return false;
#endif
}

// The sum of a number and of that in the lane which an exclusive or with `mask` finds.
inline float sum_across(float v, ushort mask) { return v + simd_shuffle_xor(v, mask); }

inline float mad(float a, float b, float c) { return fma(a, b, c); }

}  // namespace hiprt
using namespace hiprt;
}  // namespace metal
using namespace metal;
