// Products of tiles of which all waves share the rows, as waves of 32 do: x and the unpacked weights lie in threadgroup memory.
// Both are there twice, and two steps are a turn of the loop, so that which of them a step takes is a constant.
#if defined(HIPRT_TILE_FACTORS)
namespace metal {

// A thread copies LOADS runs of x, `spread` elements of the tile apart, and unpacks half a step of a column of the weights.
// The two tiles of each are X_APART and W_APART elements apart.
template <typename T, int BITS, typename Part, int DEPTH, int LOADS, int X_APART, int W_APART>
struct shared_rows {
  enum : int { LINE = tile_line<T, DEPTH>(), RUN = 16 / sizeof(T) };
  const T* const* vectors;
  tile_weights<T, BITS> stored;
  uint span, first, last;  // from the first of the steps to before the last
  T* copied;  // where the first run goes
  int spread;
  T* unpacked;
  const T* rows;  // of the wave
  const T* weights;  // of the wave's columns
  uint lane;
  typename tile_weights<T, BITS>::loaded codes;

  HIPRT_INLINE void load(int side, uint step) {
    codes = stored.at(step * BITS, step * DEPTH / span);
#pragma unroll
    for (int i = 0; i < LOADS; i++) copy_to_tile(copied + side * X_APART + i * spread, vectors[i] + step * DEPTH);
  }
  HIPRT_INLINE void multiply(Part& part, int side, uint step) {
    stored.unpack_to(unpacked + side * W_APART, codes);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (step + 1 < last) load(1 - side, step + 1);
    part.template add<false>(rows + side * X_APART, LINE, weights + side * W_APART, LINE, DEPTH, lane);
  }
  // part += x * weights.
  HIPRT_INLINE void add_to(Part& part) {
    load(0, first);
    for (uint step = first; step < last; step += 2) {
      multiply(part, 0, step);
      if (step + 1 < last) multiply(part, 1, step + 1);
    }
  }
};

}  // namespace metal
#endif
