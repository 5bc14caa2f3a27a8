// out = logits where they are likely enough, else -inf, by the threshold that the search in filter.h found. given: bit 0
// top_k, bit 1 top_p, bit 2 min_p. level: how many launches of the search there were. Each row has its own `groups` threadgroups.
threadgroup uint shared[3 * 32 + 4];
const Members members{thread_index_in_threadgroup, threads_per_threadgroup.x, thread_index_in_simdgroup,
                      simdgroup_index_in_threadgroup, simdgroups_per_threadgroup};
const uint step = members.step;
const uint row = threadgroup_position_in_grid.x / groups, group = threadgroup_position_in_grid.x % groups;
const uint first = group * share + members.index;
const uint end = min(width, (group + 1) * share);
const device T* values = logits + size_t(row) * width;
device T* results = out + size_t(row) * width;
begin_next();
wait_for_inputs();
Some<T> some = some_of(values, first, step, end);
const Rules rules = rules_of(given, width, top_k + row, top_p + row, min_p + row);
const Kept<KEY> kept = kept_by<KEY>(rules, level, found + size_t(row) * digits<KEY>::WORDS, tops + row * groups, groups, grain,
                                    shared, members);
const T dropped = T(-INFINITY);
for (uint at = first; at < end;) {
#pragma unroll
  for (uint i = 0; i < Some<T>::COUNT; i++) {
    const T value = some.values[i];
    if (at + i * step < end) results[at + i * step] = kept.has(float(value)) ? value : dropped;
  }
  at += Some<T>::COUNT * step;
  if (at < end) some = some_of(values, at, step, end);
}
