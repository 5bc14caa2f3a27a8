// out = logits where they are likely enough, else -inf, by the threshold that the search in filter.h found. given: bit 0
// top_k, bit 1 top_p, bit 2 min_p. level: how many launches of the search there were.
threadgroup uint shared[3 * 32 + 4];
const uint lane = thread_index_in_simdgroup;
const uint simdgroup = simdgroup_index_in_threadgroup;
const uint simdgroups = simdgroups_per_threadgroup;
const uint index = thread_index_in_threadgroup;
const uint step = threads_per_threadgroup.x;
const uint group = threadgroup_position_in_grid.x;
const uint first = group * share + index;
const uint end = min(width, (group + 1) * share);
begin_next();
wait_for_inputs();
Some<T> some = some_of(logits, first, step, end);
const int k = (given & 1u) != 0 ? top_k[0] : 0;
const float p = (given & 2u) != 0 ? top_p[0] : 1.0f;
const Wanted wanted{k > 0 && uint(k) < width, p < 1.0f, uint(k), p};
uint threshold = 0;
if (level > 0 && (wanted.counts || wanted.weighs)) {
  threshold = range_after<KEY>(level, found, wanted, shared, index, step, lane, simdgroup, simdgroups).low;
}
const float m = (given & 4u) != 0 ? min_p[0] : 0.0f;
float least = -INFINITY;
if (m > 0.0f) {
  const float top = level > 0 ? as_type<float>(state_of<KEY>(found, 0)[0]) : top_of_all(tops, groups, lane);
  least = top + log(m);
}
for (uint at = first; at < end;) {
#pragma unroll
  for (uint i = 0; i < Some<T>::COUNT; i++) {
    const float value = float(some.values[i]);
    const bool stays = digits<KEY>::key(value) >= threshold && !(value < least);
    if (at + i * step < end) out[at + i * step] = stays ? T(some.values[i]) : T(-INFINITY);
  }
  at += Some<T>::COUNT * step;
  if (at < end) some = some_of(logits, at, step, end);
}
