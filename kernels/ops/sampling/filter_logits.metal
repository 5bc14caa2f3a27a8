// out = logits where they are likely enough, else -inf, by the threshold that the search in filter.h found. given: bit 0
// top_k, bit 1 top_p, bit 2 min_p. level: how many launches of the search there were.
threadgroup float parts[32];
threadgroup float found[2 * PARTS];
const uint lane = thread_index_in_simdgroup;
const uint simdgroup = simdgroup_index_in_threadgroup;
const uint simdgroups = simdgroups_per_threadgroup;
const uint index = thread_index_in_threadgroup;
const uint step = threads_per_threadgroup.x;
const uint group = threadgroup_position_in_grid.x;
const uint first = group * share + index;
const uint end = min(width, (group + 1) * share);
const int k = (given & 1u) != 0 ? top_k[0] : 0;
const float p = (given & 2u) != 0 ? top_p[0] : 1.0f;
const Wanted wanted = wanted_of(tops, groups, k, p, width, parts, index, step, lane, simdgroup, simdgroups);
Range range{LOWEST_KEY, 0.0f, 0.0f};
if (level > 0) range = range_of(before, low, above, groups, level, wanted, found, index, step);
const float m = (given & 4u) != 0 ? min_p[0] : 0.0f;
const float least = m > 0.0f ? wanted.top + log(m) : -INFINITY;
const int threshold = wanted.counts || wanted.weighs ? range.low : LOWEST_KEY;
for (uint i = first; i < end; i += step) {
  const float value = float(logits[i]);
  out[i] = order_key(value) >= threshold && !(value < least) ? T(logits[i]) : T(-INFINITY);
}
