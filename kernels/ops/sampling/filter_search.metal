// One launch of the search in filter.h. given: bit 0 top_k, bit 1 top_p. level: how many launches there were before.
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
float count[PARTS], mass[PARTS];
for (uint j = 0; j < PARTS; j++) count[j] = mass[j] = 0.0f;
for (uint i = first; i < end; i += step) {
  const int key = order_key(float(logits[i]));
  const uint offset = uint(key) - uint(range.low);
  if (key < range.low || (level > 0 && offset >> (32 - 4 * level))) continue;
  const float power = wanted.weighs ? exp(float(logits[i]) - wanted.top) : 0.0f;
#pragma unroll
  for (uint j = 0; j < PARTS; j++) {
    const bool is_in = offset >> (28 - 4 * level) == j;
    count[j] += is_in ? 1.0f : 0.0f;
    mass[j] += is_in ? power : 0.0f;
  }
}
#pragma unroll
for (uint j = 0; j < PARTS; j++) {
  count[j] = sum_of_row(count[j], parts, lane, simdgroup, simdgroups);
  mass[j] = sum_of_row(mass[j], parts, lane, simdgroup, simdgroups);
  if (index == 0) {
    after[group * 2 * PARTS + j] = count[j];
    after[group * 2 * PARTS + PARTS + j] = mass[j];
  }
}
if (index == 0 && group == 0) {
  new_low[0] = range.low;
  new_above[0] = range.count;
  new_above[1] = range.mass;
}
