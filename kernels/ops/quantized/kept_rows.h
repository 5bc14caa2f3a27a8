// Products of tiles of which each wave has rows of its own, as waves of 64 do: x goes from memory into the registers of
// the wave that multiplies it, and threadgroup memory holds unpacked weights only, so that more threadgroups fit.
#if defined(HIPRT_TILE_FACTORS)
namespace metal {

// A lane loads the factors of its rows from `vectors`, and unpacks half a step of a column of the weights into `unpacked`.
// The two tiles of `weights`, used in turn, are APART elements apart.
template <typename T, int BITS, typename Part, int DEPTH, int APART>
struct kept_rows {
  enum : int { LINE = tile_line<T, DEPTH>() };
  const T** vectors;  // of the step that is multiplied, or of the one before
  tile_weights<T, BITS> stored;
  uint span, steps;
  T* unpacked;
  const T* weights;
  uint lane;
  typename tile_factor<T>::type rows[2][Part::DOWN];

  // A step's weights and rows, which are `further` elements behind the vectors.
  template <int BLOCKS>
  HIPRT_INLINE void load(int side, uint step, uint further) {
    stored.load(step * BITS, step * DEPTH / span);
    __builtin_amdgcn_sched_barrier(0);  // what is needed first comes first
#pragma unroll
    for (int i = 0; i < BLOCKS; i++) rows[side][i] = factor_at(vectors[i] + further);
  }
  template <int BLOCKS>
  HIPRT_INLINE void multiply(Part& part, int side, uint next, uint further) {
    stored.unpack_to(unpacked + side * APART);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    // What the next step needs is on its way during this one's products; the last step loads its own again.
    load<BLOCKS>(1 - side, next, further);
    __builtin_amdgcn_sched_barrier(0);
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
    load<BLOCKS>(0, 0, 0);
    uint step = 0;
    for (; step + 2 <= steps; step += 2) {
      multiply<BLOCKS>(part, 0, step + 1, DEPTH);
      const uint next = min(step + 2, steps - 1);
#pragma unroll
      for (int i = 0; i < BLOCKS; i++) vectors[i] += (next - step) * DEPTH;
      multiply<BLOCKS>(part, 1, next, 0);
    }
    if (step < steps) multiply<BLOCKS>(part, 0, step, 0);
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
