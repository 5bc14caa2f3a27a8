// Products of tiles of which each wave has rows of its own, as waves of 64 do: x goes from memory into the registers of
// the wave that multiplies it, and threadgroup memory holds unpacked weights only, so that more threadgroups fit.
#if defined(HIPRT_TILE_FACTORS)
namespace metal {

// A lane loads the factors of its rows from `vectors`, and unpacks half a step of a column of the weights into `unpacked`.
// The two tiles of `weights`, used in turn, are APART elements apart.
template <typename T, int BITS, typename Part, int DEPTH, int APART>
struct kept_rows {
  enum : int { LINE = tile_line<T, DEPTH>() };
  const T* const* vectors;
  tile_weights<T, BITS> stored;
  uint span, steps;
  T* unpacked;
  const T* weights;
  uint lane;
  typename tile_factor<T>::type rows[2][Part::DOWN];

  HIPRT_INLINE void load(int side, uint step) {
    stored.load(step * BITS, step * DEPTH / span);
    __builtin_amdgcn_sched_barrier(0);  // what is needed first comes first
#pragma unroll
    for (int i = 0; i < Part::DOWN; i++) rows[side][i] = factor_at(vectors[i] + step * DEPTH);
  }
  HIPRT_INLINE void multiply(Part& part, int side, uint step) {
    stored.unpack_to(unpacked + side * APART);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    // What the next step needs is on its way during this one's products; the last step loads its own again.
    load(1 - side, min(step + 1, steps - 1));
    __builtin_amdgcn_sched_barrier(0);
    part.add_factors(rows[side], weights + side * APART, LINE, lane);
    __builtin_amdgcn_sched_barrier(0);  // else the next step's codes are waited for here
  }
  // part += x * weights.
  HIPRT_INLINE void add_to(Part& part) {
    load(0, 0);
    uint step = 0;
    for (; step + 2 <= steps; step += 2) {
      multiply(part, 0, step);
      multiply(part, 1, step + 1);
    }
    if (step < steps) multiply(part, 0, step);
  }
};
// Numbers of 32 bits have no matrix instructions.
template <int BITS, typename Part, int DEPTH, int APART>
struct kept_rows<float, BITS, Part, DEPTH, APART> {
  template <typename... GIVEN>
  kept_rows(GIVEN...) {}
  void add_to(Part&) {}
};

}  // namespace metal
#endif
