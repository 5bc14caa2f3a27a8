// Stages: threadgroup memory that one thread has filled by bulk copies, an instruction of compute capability 9.0, while others
// work. A stage is full when the expected bytes have arrived.
// docs.nvidia.com/cuda/parallel-thread-execution, mbarrier and cp.async.bulk.
#if HIPRT_TARGET_NVIDIA
namespace metal {
namespace hiprt {

// Places in threadgroup memory are kept as numbers, because a compiler would convert a pointer again at each use.
HIPRT_INLINE uint in_shared(const void* from) {
  uint place = uint(__cvta_generic_to_shared(from));
  asm volatile("" : "+r"(place));
  return place;
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
// Addresses and sizes are multiples of 16 bytes.
HIPRT_INLINE void copy_bulk(uint to, const void* from, uint bytes, uint barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}
// `turn`: 0 for the first use of the stage, 1 for the second, 0 for the third.
HIPRT_INLINE void wait_for_stage(uint barrier, uint turn) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra again;\n}" ::"r"(barrier),
      "r"(turn)
      : "memory");
}

}  // namespace hiprt
using namespace hiprt;
}  // namespace metal
#endif
