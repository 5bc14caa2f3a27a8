// The search for the threshold of filter_logits: the highest key at which k logits, or the share p of the sum of exponentials,
// are reached. A launch settles one digit of the key: all threadgroups together add up, for each value of the digit, how many
// logits have it and their exponentials; the next launch chooses the value. Of keys of 16 bits the first launch also counts the
// logits of each key, which settles the second digit. Sums are of integers, so that their order does not matter. All that is
// found lies in one array of words: the sums of each level, or of the first and the counts of keys, then a state for each.
namespace metal {

constant constexpr uint SUMS = 4;    // words of one value of a digit: a count, then 18 bits each of the sum of exponentials
constant constexpr uint STATES = 8;  // words of the range before a level's launch, of which 5 are used so that what is found of
                                     // a row begins at a multiple of 16 bytes; before the first launch, the largest logit alone

// How keys of some bits are divided into digits; order_key (largest.h) has a sign, these keys begin at 0. KEY is 0 where there
// are no rules.
template <int KEY>
struct digits {
  enum : uint { LEVELS = KEY == 32 ? 3 : 2, DIGIT = (KEY + LEVELS - 1) / LEVELS, BINS = 1u << DIGIT };
  enum : uint { COPIES = HIPRT_CPU_LOOPS ? 1 : 2048 / BINS };  // of the sums in threadgroup memory, so that fewer threads collide
  enum : uint { COUNTS = KEY == 16 && !HIPRT_CPU_LOOPS };      // whether the logits of each key are counted
  enum : uint { SUMMED = (COUNTS ? 1 : LEVELS) * BINS * SUMS, WORDS = SUMMED + (COUNTS ? 1u << 16 : 0u) + LEVELS * STATES };
  static uint key(float value) { return (uint(order_key(value)) ^ 0x80000000u) >> (KEY == 0 ? 0 : 32 - KEY); }
  // The number that has a key of 16 bits.
  static float value(uint key) {
    const int order = int((key << 16 | (key & 0x8000u ? 0u : 0xffffu)) ^ 0x80000000u);
    return as_type<float>(order < 0 ? order ^ 0x7fffffff : order);
  }
  // The bits below the digits that are settled after so many levels.
  static uint below(uint level) { return level * DIGIT < uint(KEY) ? KEY - level * DIGIT : 0; }
};

// What is to be reached: a number of logits where `counts`, a share of the sum of exponentials where `weighs`; and the least
// probability that stays, as a part of the largest one.
struct Rules {
  bool counts, weighs;
  uint count;
  float share, least;
};

// given: bit 0 top_k, bit 1 top_p, bit 2 min_p.
inline Rules rules_of(uint given, uint width, const device int* top_k, const device float* top_p, const device float* min_p) {
  const int k = (given & 1u) != 0 ? *top_k : 0;
  const float p = (given & 2u) != 0 ? *top_p : 1.0f;
  return Rules{k > 0 && uint(k) < width, p < 1.0f, uint(k), p, (given & 4u) != 0 ? *min_p : 0.0f};
}

// A thread's place in its threadgroup.
struct Members {
  uint index, step, lane, simdgroup, simdgroups;
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

// An exponential in units of 2^(-2 * grain), in two halves of `grain` bits.
struct Mass {
  uint high, low;
};
inline Mass mass_of(float value, float top, uint grain) {
  const float unit = float(1u << grain), upper = (value == top ? 1.0f : exp(value - top)) * unit;
  const uint high = uint(upper);
  return Mass{high, uint((upper - float(high)) * unit)};
}

// What a launch has added up for each value of a digit.
struct DigitSums {
  const device uint* sums;

  Above at(uint bin) const {
    const pack<uint, SUMS> found = ((const device pack<uint, SUMS>*)sums)[bin];
    return Above{found.values[0], ulong(found.values[1]) + (ulong(found.values[2]) << 18) + (ulong(found.values[3]) << 36)};
  }
};

// The same for the last digit of keys of 16 bits, of the counts of keys.
struct KeySums {
  const device uint* counts;
  uint low, grain;
  bool weighs;
  float top;

  Above at(uint bin) const {
    const uint count = counts[low + bin];
    if (!weighs || count == 0) return Above{count, 0};
    const Mass one = mass_of(digits<16>::value(low + bin), top, grain);
    return Above{count, count * ((ulong(one.high) << grain) + one.low)};
  }
};

// Where the state before a launch lies.
template <int KEY>
inline const device uint* state_of(const device uint* found, uint level) {
  return found + (digits<KEY>::WORDS - digits<KEY>::LEVELS * STATES) + level * STATES;
}

inline Above operator+(Above a, Above b) { return Above{a.count + b.count, a.mass + b.mass}; }

// Returns the range that is left of one when digit `level` (from 1 on) is settled too, to every thread. sums: by the digit's
// values. shared: 3 words for each of 32 simdgroups and 4 more. Thread i has its share of bins, counted from the highest one on.
template <int KEY, typename Sums>
inline Range narrowed(Range range, uint level, Sums sums, Rules wanted, threadgroup uint* shared, Members members) {
  typedef digits<KEY> by;
  const uint index = members.index, lane = members.lane, simdgroup = members.simdgroup, simdgroups = members.simdgroups;
  const uint share = by::BINS / members.step, first = by::BINS - 1 - index * share;
  Above own{0, 0};
  for (uint i = 0; i < share; i++) own = own + sums.at(first - i);
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
    const Above last = sums.at(0), rest{range.above.count + all.count - last.count, range.above.mass + all.mass - last.mass};
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
    const Above next = here + sums.at(first - i);
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

// Returns the range that is left after `level` launches, at least one, to every thread. grain: as in mass_of.
template <int KEY>
inline Range range_after(uint level, const device uint* found, Rules wanted, uint grain, threadgroup uint* shared, Members members) {
  typedef digits<KEY> by;
  const device uint* state = state_of<KEY>(found, level - 1);
  Range range{0, Above{0, 0}, 0.0f};
  if (level > 1) range = Range{state[0], Above{state[1], ulong(state[2]) + (ulong(state[3]) << 32)}, as_type<float>(state[4])};
  const float top = as_type<float>(state_of<KEY>(found, 0)[0]);
  range = narrowed<KEY>(range, level, DigitSums{found + (level - 1) * (by::BINS * SUMS)}, wanted, shared, members);
  if (by::COUNTS) {
    range = narrowed<KEY>(range, 2, KeySums{found + by::SUMMED, range.low, grain, wanted.weighs, top}, wanted, shared, members);
  }
  return range;
}

// The largest logit, and the largest one of the threadgroup where that is the smallest.
struct Tops {
  float most, least;
};

// tops: the largest logits of all threadgroups; each simdgroup looks at all of these.
inline Tops tops_of_all(const device float* tops, uint groups, uint lane) {
#if HIPRT_CPU_LOOPS
  const uint first = 0, step = 1;
#else
  const uint first = lane, step = 32;
#endif
  Tops all{-INFINITY, INFINITY};
  for (uint i = first; i < groups; i += step) all = Tops{max(all.most, tops[i]), min(all.least, tops[i])};
#if !HIPRT_CPU_LOOPS
  all = Tops{simd_max(all.most), simd_min(all.least)};
#endif
  return all;
}

// A number that the threshold is not below. As many logits as there are threadgroups are not below the least of their largest
// ones; and `width` logits that are lower than the other bound have together less than half of what p leaves out.
inline float floor_of(Rules wanted, Tops tops, uint groups, uint width) {
  float floor = -INFINITY;
  if (wanted.counts && wanted.count <= groups) floor = tops.least;
  if (wanted.weighs && wanted.share < 0.9999f) {
    floor = max(floor, tops.most - log(2.0f * float(width) / (1.0f - max(wanted.share, 0.0f))));
  }
  return floor;
}

// What the rules keep: keys from a threshold on, and logits from a least one on; NaN stays.
template <int KEY>
struct Kept {
  uint threshold;
  float least;
  bool has(float value) const { return digits<KEY>::key(value) >= threshold && !(value < least); }
};

// Returns what the rules keep after `level` launches of the search, to every thread.
template <int KEY>
inline Kept<KEY> kept_by(Rules rules, uint level, const device uint* found, const device float* tops, uint groups, uint grain,
                         threadgroup uint* shared, Members members) {
  Kept<KEY> kept{0, -INFINITY};
  if (level > 0 && (rules.counts || rules.weighs)) kept.threshold = range_after<KEY>(level, found, rules, grain, shared, members).low;
  if (rules.least > 0.0f) {
    const float top = level > 0 ? as_type<float>(state_of<KEY>(found, 0)[0]) : tops_of_all(tops, groups, members.lane).most;
    kept.least = top + log(rules.least);
  }
  return kept;
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
