// Stages: threadgroup memory that one thread has filled by bulk copies, an instruction of compute capability 9.0, while others
// work. A stage is full when the expected bytes have arrived.
// docs.nvidia.com/cuda/parallel-thread-execution, mbarrier and cp.async.bulk.
namespace metal {
namespace hiprt {

#if HIPRT_TARGET_NVIDIA

// Places in threadgroup memory are kept as numbers, because a compiler would convert a pointer again at each use.
HIPRT_INLINE uint in_shared(const void* from) {
  uint place = uint(__cvta_generic_to_shared(from));
  asm volatile("" : "+r"(place));
  return place;
}

// A number that is computed here, and not again where it is used: a compiler would do that behind a wait.
HIPRT_INLINE uint kept(uint number) {
  asm volatile("" : "+r"(number));
  return number;
}

// This initialises a stage's barrier for the number of threads that arrive at it.
HIPRT_INLINE void begin_stage(uint barrier, uint count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
// This follows the last of them and precedes the threadgroup's barrier.
HIPRT_INLINE void stages_begun() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
HIPRT_INLINE void expect_bytes(uint barrier, uint bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
// This thread arrives once its copies so far are there.
HIPRT_INLINE void arrive_with_copies(uint barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}
// Addresses and sizes are multiples of 16 bytes.
HIPRT_INLINE void copy_bulk(uint to, const void* from, uint bytes, uint barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}
// The same for weights, which leave the L2 cache first.
HIPRT_INLINE void copy_bulk_once(uint to, const void* from, uint bytes, uint barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier), "l"(FIRST_TO_LEAVE)
               : "memory");
}
// `turn`: 0 for the first use of the stage, 1 for the second, 0 for the third.
HIPRT_INLINE void wait_for_stage(uint barrier, uint turn) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra again;\n}" ::"r"(barrier),
      "r"(turn)
      : "memory");
}

// Threadgroups of a cluster: this one's place, and a barrier of all their threads in two steps, or in one that orders
// threadgroup memory. The first step by itself orders nothing but stages that have begun.
HIPRT_INLINE uint place_in_cluster() {
  uint place;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(place));
  return place;
}
HIPRT_INLINE void arrive_in_cluster() { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }
HIPRT_INLINE void wait_for_cluster() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }
HIPRT_INLINE void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
  wait_for_cluster();
}
// Stores to the place that `at` is in the memory of another threadgroup, where `barrier` counts the bytes that are there. Such
// stores need no barrier of the cluster, whose release is a fence of the whole GPU.
HIPRT_INLINE uint in_memory_of(uint at, uint place) {
  uint there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(place));
  return there;
}
HIPRT_INLINE uint in_memory_of(const void* at, uint place) { return in_memory_of(uint(__cvta_generic_to_shared(at)), place); }
HIPRT_INLINE void store_in_cluster(uint* at, uint value, uint barrier, uint place) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(in_memory_of(at, place)),
               "r"(value), "r"(in_memory_of(barrier, place))
               : "memory");
}
HIPRT_INLINE void store_in_cluster(float* at, float value, uint barrier, uint place) {
  store_in_cluster((uint*)at, as_type<uint>(value), barrier, place);
}
template <typename T>
HIPRT_INLINE void store_in_cluster(pack<T, 2>* at, pack<T, 2> pair, uint barrier, uint place) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.u32 [%0], {%1, %2}, [%3];" ::"r"(in_memory_of(at, place)),
               "r"(as_type<uint>(pair.values[0])), "r"(as_type<uint>(pair.values[1])), "r"(in_memory_of(barrier, place))
               : "memory");
}
#else  // a cluster is one threadgroup
HIPRT_INLINE uint kept(uint number) { return number; }
HIPRT_INLINE uint place_in_cluster() { return 0; }
HIPRT_INLINE void cluster_barrier() { threadgroup_barrier(mem_flags::mem_threadgroup); }
HIPRT_INLINE void arrive_in_cluster() {}
HIPRT_INLINE void wait_for_cluster() {}
template <typename T>
HIPRT_INLINE void store_in_cluster(T*, T, uint, uint) {}
#endif

}  // namespace hiprt
using namespace hiprt;
}  // namespace metal
