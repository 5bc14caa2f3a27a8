// Rows that come through threadgroup memory as parts of matrices, for products of 16-bit numbers as `mma` takes them. Where the
// target has no instructions for it, lanes exchange words.
namespace metal {

#if HIPRT_TARGET_NVIDIA
typedef uint shared_place;  // in bytes
HIPRT_INLINE shared_place place_of(const void* from) { return in_shared(from); }
// Four squares of 8 by 8 numbers: lane i says where line i % 8 of square i / 8 begins, and has of each square the numbers 2t
// and 2t + 1 of line g, or TURNED of the column g, with g = lane / 4, t = lane % 4.
template <bool TURNED>
HIPRT_INLINE void load_squares(uint (&to)[4], shared_place at) {
  if (TURNED) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at)
                 : "memory");
  }
}
// A square with lines and columns exchanged.
HIPRT_INLINE uint turned_square(uint square) {
  uint turned;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(square));
  return turned;
}
#else
typedef char* shared_place;
HIPRT_INLINE shared_place place_of(void* from) { return (shared_place)from; }
// Where there are no bulk copies, rows are there at once.
HIPRT_INLINE void begin_stage(shared_place, uint) {}
HIPRT_INLINE void stages_begun() {}
HIPRT_INLINE void expect_bytes(shared_place, uint) {}
HIPRT_INLINE void wait_for_stage(shared_place, uint) {}
HIPRT_INLINE void copy_bulk(shared_place to, const void* from, uint bytes, shared_place) {
  for (uint i = 0; i < bytes; i += 16) *(pack<uint, 4>*)(to + i) = *(const pack<uint, 4>*)((const char*)from + i);
}
HIPRT_INLINE uint turned_square(uint square) {
  const uint lane = lane_index(), from = lane % 4 * 8 + lane / 8, shift = lane / 4 % 2 * 16;
  return (simd_shuffle(square, from) >> shift & 0xffffu) | (simd_shuffle(square, from + 4) >> shift) << 16;
}
template <bool TURNED>
HIPRT_INLINE void load_squares(uint (&to)[4], shared_place at) {
  const ulong place = ulong(at);
  const uint lane = lane_index();
  for (uint i = 0; i < 4; i++) {
    const uint line = i * 8 + lane / 4;
    const ulong from = ulong(simd_shuffle(uint(place >> 32), line)) << 32 | simd_shuffle(uint(place), line);
    to[i] = ((const uint*)from)[lane % 4];
    if (TURNED) to[i] = turned_square(to[i]);
  }
}
#endif

}  // namespace metal
