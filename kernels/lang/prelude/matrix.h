// Matrix instructions of NVIDIA GPUs from compute capability 8.0, and the copies that feed them, as PTX.
#if HIPRT_TARGET_NVIDIA && __CUDA_ARCH__ >= 800
#define HIPRT_HAS_MMA 1
namespace metal {
namespace hiprt {

// This copies 16 bytes from memory to shared memory while the thread goes on.
HIPRT_INLINE void copy_async(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(uint(__cvta_generic_to_shared(to))), "l"(from) : "memory");
}
// Copies of 4, 8 or 16 bytes that end together, and the wait for all but the newest N such lots. What those of 16 bytes bring,
// weights, leaves the L2 cache first, as that of `load_once` does. Those need no branch: where `is_there` is false zeros are
// written and nothing is read.
//
// The `and`, which changes nothing, keeps a place in one register. Where NVRTC 13.0.88 adds a part that all lanes have in common,
// it takes the register of the policy for it, and a GPU stops at an illegal instruction. It can go with the first NVRTC that
// compiles copies in a loop over stages without it (test_rows_of_a_gpu_have_the_bits_of_one).
typedef uint copy_place;
HIPRT_INLINE copy_place place_of_copy(const void* to) {
  copy_place place = uint(__cvta_generic_to_shared(to));
  asm volatile("and.b32 %0, %0, 0x7fffffff;" : "+r"(place));
  return place;
}
HIPRT_INLINE void copy_later_if(copy_place to, const void* from, bool is_there) {
  const uint bytes = is_there ? 16 : 0;
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2, %3;"
               : : "r"(to), "l"(from), "r"(bytes), "l"(FIRST_TO_LEAVE) : "memory");
#else
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" : : "r"(to), "l"(from), "r"(bytes) : "memory");
#endif
}
template <uint BYTES>
HIPRT_INLINE void copy_later(void* to, const void* from) {
  if (BYTES == 16) {
    copy_later_if(place_of_copy(to), from, true);
  } else {
    const uint at = uint(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" : : "r"(at), "l"(from), "n"(BYTES) : "memory");
  }
}
HIPRT_INLINE void end_copies() { asm volatile("cp.async.commit_group;" : : : "memory"); }
template <int N>
HIPRT_INLINE void wait_for_all_but() { asm volatile("cp.async.wait_group %0;" : : "n"(N) : "memory"); }
HIPRT_INLINE void wait_for_copies() { asm volatile("cp.async.wait_all;" : : : "memory"); }

// This rounds two numbers into one word.
HIPRT_INLINE uint pair_of(float first, float second, bfloat16_t) {
  uint pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}
HIPRT_INLINE uint pair_of(float first, float second, half) {
  uint pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}
template <bool TURNED>
HIPRT_INLINE void load_fragments(uint* to, const void* from) {
  const uint at = uint(__cvta_generic_to_shared(from));
  if (TURNED) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at) : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at) : "memory");
  }
}
#define HIPRT_MMA(type)                                                                                             \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "   \
               "{%8, %9}, {%0, %1, %2, %3};"                                                                        \
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                                     \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
HIPRT_INLINE void multiply_fragments(float* c, const uint* a, const uint* b, bfloat16_t) { HIPRT_MMA("bf16"); }
HIPRT_INLINE void multiply_fragments(float* c, const uint* a, const uint* b, half) { HIPRT_MMA("f16"); }
#undef HIPRT_MMA

}  // namespace hiprt
}  // namespace metal
#else
#define HIPRT_HAS_MMA 0
namespace metal {
namespace hiprt {

// Where there are no such copies, they are there at once.
template <uint BYTES>
HIPRT_INLINE void copy_later(void* to, const void* from) { __builtin_memcpy(to, from, BYTES); }
typedef char* copy_place;
HIPRT_INLINE copy_place place_of_copy(void* to) { return (char*)to; }
HIPRT_INLINE void copy_later_if(copy_place to, const void* from, bool is_there) {
  if (is_there) __builtin_memcpy(to, from, 16);
}
HIPRT_INLINE void end_copies() {}
template <int N>
HIPRT_INLINE void wait_for_all_but() {}

}  // namespace hiprt
}  // namespace metal
#endif
