// Products of tiles of which each wave has rows of its own, as waves of 64 do: x goes from memory into the registers of
// the wave that multiplies it, and threadgroup memory holds unpacked weights only, so that more threadgroups fit.
#if defined(HIPRT_TILE_FACTORS)
namespace metal {

// A lane loads the factors of its rows from `vectors`, and unpacks half a step of a column of the weights into `unpacked`.
// The two tiles of `weights`, used in turn, are APART elements apart. What a step needs is on its way for two steps.
template <typename T, int BITS, typename Part, int DEPTH, int APART>
struct kept_rows {
  enum : int { LINE = tile_line<T, DEPTH>() };
  const T** vectors;  // at the step that is loaded, or so far before it as `load` is told
  tile_weights<T, BITS> stored;
  uint span, first, last;  // from the first of the steps to before the last
  T* unpacked;
  const T* weights;
  uint lane;
  typename tile_weights<T, BITS>::loaded codes[2];
  typename tile_factor<T>::type rows[2][Part::DOWN];

  template <int BLOCKS>
  HIPRT_INLINE void advance(uint steps) {
#pragma unroll
    for (int i = 0; i < BLOCKS; i++) vectors[i] += steps * DEPTH;
  }
  template <int BLOCKS>
  HIPRT_INLINE void load(int side, uint step, uint further) {
    codes[side] = stored.at(step * BITS, step * DEPTH / span);
    __builtin_amdgcn_sched_barrier(0);  // what is needed first comes first
#pragma unroll
    for (int i = 0; i < BLOCKS; i++) rows[side][i] = factor_at(vectors[i] + further * DEPTH);
    __builtin_amdgcn_sched_barrier(0);
  }
  template <int BLOCKS>
  HIPRT_INLINE void multiply(Part& part, int side) {
    stored.unpack_to(unpacked + side * APART, codes[side]);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    part.template add_factors<BLOCKS>(rows[side], weights + side * APART, LINE, lane);
    __builtin_amdgcn_sched_barrier(0);  // else the next step's codes are waited for here
  }
  // part += x * weights, of the first BLOCKS blocks of rows at most; of half of them where no more are present.
  template <int BLOCKS = Part::DOWN>
  HIPRT_INLINE void add_to(Part& part, uint present) {
    if (BLOCKS > 1 && present <= BLOCKS / 2) {
      add_to<(BLOCKS + 1) / 2>(part, present);
      return;
    }
    advance<BLOCKS>(first);
    load<BLOCKS>(0, first, 0);
    uint step = first;
    if (step + 1 < last) {
      load<BLOCKS>(1, step + 1, 1);
      for (; step + 4 <= last; step += 2) {
        advance<BLOCKS>(2);
        multiply<BLOCKS>(part, 0);
        load<BLOCKS>(0, step + 2, 0);
        multiply<BLOCKS>(part, 1);
        load<BLOCKS>(1, step + 3, 1);
      }
      multiply<BLOCKS>(part, 0);
      if (step + 2 < last) load<BLOCKS>(0, step + 2, 2);
      multiply<BLOCKS>(part, 1);
      step += 2;
    }
    if (step < last) multiply<BLOCKS>(part, 0);
  }
};
// Numbers of 32 bits have no matrix instructions.
template <int BITS, typename Part, int DEPTH, int APART>
struct kept_rows<float, BITS, Part, DEPTH, APART> {
  template <typename... GIVEN>
  kept_rows(GIVEN...) {}
  void add_to(Part&, uint) {}
};

}  // namespace metal
#endif
