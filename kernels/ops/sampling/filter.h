// The threshold of filter_logits: the highest key (largest.h) at which k logits, or the share p of all exponentials, are
// reached. It is sought four bits of the key at a time: threadgroups count what of their logits is in each of 16 parts of
// the range that is left, and the next launch chooses the part.
namespace metal {

constant constexpr uint PARTS = 16;

struct Wanted {
  bool counts, weighs;
  float count, mass;  // how much is to be reached
  float top;          // the largest logit
};

// The range's lowest key, and what is above the range.
struct Range {
  int low;
  float count, mass;
};

// found: of each part how many, then how much; a part has 2^shift keys.
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

// From what filter_tops found of each threadgroup. parts: as of top_of_row.
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

// The range after `level` launches, of which the last one found `before` and had the range that starts at `low`.
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
