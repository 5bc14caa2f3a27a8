// The search for the threshold of filter_logits: the highest key (largest.h) at which k logits, or the share p of the sum of
// exponentials, are reached. A launch settles four bits of the key. Each threadgroup sums up, for each of 16 parts of the
// range that is left, how many of its logits are in the part and their exponentials; the next launch chooses the part.
namespace metal {

constant constexpr uint PARTS = 16;

// What is to be reached: a number of logits where `counts`, a sum of exponentials where `weighs`.
struct Wanted {
  bool counts, weighs;
  float count, mass;
  float top;          // the largest logit
};

// A range of keys: its lowest one, how many logits are above the range, and the sum of their exponentials.
struct Range {
  int low;
  float count, mass;
};

// Returns the part of a range in which the threshold is. found: how many logits are in each part, then the sum of
// exponentials of each part; a part has 2^shift keys.
inline Range narrowed(Range range, Wanted wanted, const threadgroup float* found, uint shift) {
  uint part = (uint(order_key(wanted.top)) - uint(range.low)) >> shift;
  part = min(part, PARTS - 1);
  while (part > 0 && !(wanted.counts && range.count + found[part] >= wanted.count) &&
         !(wanted.weighs && range.mass + found[PARTS + part] >= wanted.mass)) {
    range.count += found[part];
    range.mass += found[PARTS + part];
    part--;
  }
  range.low = int(uint(range.low) + (part << shift));
  return range;
}

// Returns what is to be reached, from what filter_tops found in each threadgroup. parts: as in top_of_row.
inline Wanted wanted_of(const device float* tops, uint groups, int k, float p, uint width, threadgroup float* parts,
                        uint index, uint step, uint lane, uint simdgroup, uint simdgroups) {
  float top = -INFINITY, all = 0.0f;
  for (uint i = index; i < groups; i += step) top = max(top, tops[2 * i]);
  top = top_of_row(top, parts, lane, simdgroup, simdgroups);
  for (uint i = index; i < groups; i += step) {
    all += tops[2 * i] > -INFINITY ? tops[2 * i + 1] * exp(tops[2 * i] - top) : 0.0f;
  }
  all = sum_of_row(all, parts, lane, simdgroup, simdgroups);
  return Wanted{k > 0 && uint(k) < width, p < 1.0f, float(k), p * all, top};
}

// Returns the range after `level` launches. The last of them searched the range that starts at `low`, and found `before`.
inline Range range_of(const device float* before, const device int* low, const device float* above, uint groups, uint level,
                      Wanted wanted, threadgroup float* found, uint index, uint step) {
  for (uint j = index; j < 2 * PARTS; j += step) {
    float sum = 0.0f;
    for (uint i = 0; i < groups; i++) sum += before[i * 2 * PARTS + j];
    found[j] = sum;
  }
#if !HIPRT_CPU_LOOPS
  threadgroup_barrier(mem_flags::mem_threadgroup);
#endif
  const Range range = level > 1 ? Range{low[0], above[0], above[1]} : Range{LOWEST_KEY, 0.0f, 0.0f};
  return narrowed(range, wanted, found, 32 - 4 * level);
}

}  // namespace metal
