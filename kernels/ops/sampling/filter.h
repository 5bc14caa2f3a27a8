// The search for the threshold of filter_logits: the highest key at which k logits, or the share p of the sum of exponentials,
// are reached. A launch settles one digit of the key: all threadgroups together add up, for each value of the digit, how many
// logits have it and their exponentials; the next launch chooses the value. Sums are of integers, so that their order does
// not matter. All that is found lies in one array of words: the sums of each level, then a state for each.
namespace metal {

constant constexpr uint SUMS = 4;    // words of one value of a digit: a count, then 18 bits each of the sum of exponentials
constant constexpr uint STATES = 5;  // words of the range before a level's launch; before the first, the largest logit alone

// How keys of some bits are divided into digits; order_key (largest.h) has a sign, these keys begin at 0.
template <int KEY>
struct digits {
  enum : uint { LEVELS = KEY == 32 ? 3 : 2, DIGIT = (KEY + LEVELS - 1) / LEVELS, BINS = 1u << DIGIT };
  enum : uint { COPIES = HIPRT_CPU_LOOPS ? 1 : 2048 / BINS };  // of the sums in threadgroup memory, so that fewer threads collide
  static uint key(float value) { return (uint(order_key(value)) ^ 0x80000000u) >> (32 - KEY); }
  // The bits below the digits that are settled after so many levels.
  static uint below(uint level) { return level * DIGIT < uint(KEY) ? KEY - level * DIGIT : 0; }
};

// What is to be reached: a number of logits where `counts`, a share of the sum of exponentials where `weighs`.
struct Wanted {
  bool counts, weighs;
  uint count;
  float share;
};

// How many logits are above a place, and the sum of their exponentials in units of filter_search.
struct Above {
  uint count;
  ulong mass;
};

// The keys among which the threshold is, which begin like `low`; what is above them, and the mass that is to be reached.
struct Range {
  uint low;
  Above above;
  float mass;
};

inline void add_in_group(threadgroup uint* to, uint more) {
#if HIPRT_CPU_LOOPS
  *to += more;
#else
  atomic_fetch_add_explicit((threadgroup atomic_uint*)to, more, memory_order_relaxed);
#endif
}

inline void add_in_all(device uint* to, uint more) {
  atomic_fetch_add_explicit((device atomic_uint*)to, more, memory_order_relaxed);
}

inline Above sum_of(const device uint* found, uint bin) {
  const pack<uint, SUMS> sums = ((const device pack<uint, SUMS>*)found)[bin];
  return Above{sums.values[0], ulong(sums.values[1]) + (ulong(sums.values[2]) << 18) + (ulong(sums.values[3]) << 36)};
}

// Where the state before a launch lies.
template <int KEY>
inline const device uint* state_of(const device uint* found, uint level) {
  return found + digits<KEY>::LEVELS * (digits<KEY>::BINS * SUMS) + level * STATES;
}

inline Above operator+(Above a, Above b) { return Above{a.count + b.count, a.mass + b.mass}; }

// Returns the range that is left after `level` launches, at least one, to every thread. shared: 3 words for each of 32
// simdgroups and 4 more. Thread i has its share of bins, counted from the highest one on.
template <int KEY>
inline Range range_after(uint level, const device uint* found, Wanted wanted, threadgroup uint* shared, uint index, uint step,
                         uint lane, uint simdgroup, uint simdgroups) {
  typedef digits<KEY> by;
  const device uint* sums = found + (level - 1) * (by::BINS * SUMS);
  const device uint* state = state_of<KEY>(found, level - 1);
  Range range{0, Above{0, 0}, 0.0f};
  if (level > 1) range = Range{state[0], Above{state[1], ulong(state[2]) + (ulong(state[3]) << 32)}, as_type<float>(state[4])};
  const uint share = by::BINS / step, first = by::BINS - 1 - index * share;
  Above own{0, 0};
  for (uint i = 0; i < share; i++) own = own + sum_of(sums, first - i);
#if HIPRT_CPU_LOOPS
  Above here{0, 0}, all = own;
#else
  Above here = own, all{0, 0};
  for (uint by_lanes = 1; by_lanes < 32; by_lanes *= 2) {
    Above before{simd_shuffle_up(here.count, by_lanes), 0};
    if (wanted.weighs) {
      before.mass = ulong(simd_shuffle_up(uint(here.mass), by_lanes)) +
                    (ulong(simd_shuffle_up(uint(here.mass >> 32), by_lanes)) << 32);
    }
    if (lane >= by_lanes) here = here + before;
  }
  if (lane == 31) {
    shared[simdgroup * 3] = here.count;
    shared[simdgroup * 3 + 1] = uint(here.mass);
    shared[simdgroup * 3 + 2] = uint(here.mass >> 32);
  }
  here = Above{here.count - own.count, here.mass - own.mass};
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint i = 0; i < simdgroups; i++) {
    const Above one{shared[i * 3], ulong(shared[i * 3 + 1]) + (ulong(shared[i * 3 + 2]) << 32)};
    if (i < simdgroup) here = here + one;
    all = all + one;
  }
#endif
  // All of the sum of exponentials is in the first level's bins.
  if (level == 1) range.mass = wanted.share * float(all.mass);
  here = here + range.above;
  threadgroup uint* chosen = shared + 3 * 32;
  if (index == 0) {  // where rounding, or NaN, leaves the number or the sum unreached
    const Above last = sum_of(sums, 0), rest{range.above.count + all.count - last.count, range.above.mass + all.mass - last.mass};
    chosen[0] = 0;
    chosen[1] = rest.count;
    chosen[2] = uint(rest.mass);
    chosen[3] = uint(rest.mass >> 32);
  }
#if !HIPRT_CPU_LOOPS
  threadgroup_barrier(mem_flags::mem_threadgroup);
#endif
  bool is_reached = here.count > range.above.count && ((wanted.counts && here.count >= wanted.count) ||
                                                      (wanted.weighs && float(here.mass) >= range.mass));
  for (uint i = 0; i < share && !is_reached; i++) {
    const Above next = here + sum_of(sums, first - i);
    is_reached = next.count > range.above.count && ((wanted.counts && next.count >= wanted.count) ||
                                                    (wanted.weighs && float(next.mass) >= range.mass));
    if (is_reached) {  // in one thread only
      chosen[0] = first - i;
      chosen[1] = here.count;
      chosen[2] = uint(here.mass);
      chosen[3] = uint(here.mass >> 32);
    }
    here = next;
  }
#if !HIPRT_CPU_LOOPS
  threadgroup_barrier(mem_flags::mem_threadgroup);
#endif
  range.low |= chosen[0] << by::below(level);
  range.above = Above{chosen[1], ulong(chosen[2]) + (ulong(chosen[3]) << 32)};
  return range;
}

// Returns the largest logit, of the largest ones of all threadgroups; each simdgroup looks at all of these.
inline float top_of_all(const device float* tops, uint groups, uint lane) {
  float top = -INFINITY;
#if HIPRT_CPU_LOOPS
  for (uint i = 0; i < groups; i++) top = max(top, tops[i]);
  return top;
#else
  for (uint i = lane; i < groups; i += 32) top = max(top, tops[i]);
  return simd_max(top);
#endif
}

// Some logits of a thread, which are asked for before what is to be known of all logits.
template <typename T>
struct Some {
  enum : uint { COUNT = 4 };
  T values[COUNT];
};
template <typename T>
inline Some<T> some_of(const device T* logits, uint at, uint step, uint end) {
  Some<T> some;
#pragma unroll
  for (uint i = 0; i < Some<T>::COUNT; i++) some.values[i] = at + i * step < end ? T(logits[at + i * step]) : T(0.0f);
  return some;
}

}  // namespace metal
