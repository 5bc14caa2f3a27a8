// Arrival: the last threadgroup to finish its share of a result puts the shares of all together.
namespace metal {
namespace hiprt {

// This orders a thread's accesses to memory with those of other threadgroups.
HIPRT_INLINE void device_fence() {
#if HIPRT_TARGET_AMD
  __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent");
#else
  __threadfence();
#endif
}

// Every thread of each of `count` threadgroups calls this once with the same counter, which is 0 before the launch and after
// it. It is true in the threadgroup that comes last, where what the others wrote before can be read from then on. `answer`
// is threadgroup memory of each.
HIPRT_INLINE bool arrives_last(uint* arrived, uint count, uint thread_index, uint* answer) {
  device_fence();
  threadgroup_barrier(mem_flags::mem_device);
  if (thread_index == 0) {
    atomic_uint* counter = (atomic_uint*)arrived;
    const bool is_last = atomic_fetch_add_explicit(counter, 1u, memory_order_relaxed) == count - 1;
    if (is_last) atomic_exchange_explicit(counter, 0u, memory_order_relaxed);
    *answer = is_last;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const bool is_last = *answer != 0;
  if (is_last) device_fence();
  return is_last;
}

}  // namespace hiprt
using namespace hiprt;
}  // namespace metal
