// One launch of the search in filter.h. given: bit 0 top_k, bit 1 top_p. level: how many launches there were before. Upper and
// lower halves of exponentials are added up by themselves (mass_of). Each row has its own `groups` threadgroups.
typedef digits<KEY> by;
threadgroup uint shared[3 * 32 + 4];
threadgroup uint bins[by::COPIES * by::BINS * 3];
const Members members{thread_index_in_threadgroup, threads_per_threadgroup.x, thread_index_in_simdgroup,
                      simdgroup_index_in_threadgroup, simdgroups_per_threadgroup};
const uint index = members.index, step = members.step;
const uint row = threadgroup_position_in_grid.x / groups, group = threadgroup_position_in_grid.x % groups;
const uint first = group * share + index;
const uint end = min(width, (group + 1) * share);
const device T* values = logits + size_t(row) * width;
device uint* words = found + size_t(row) * by::WORDS;
for (uint i = index; i < by::COPIES * by::BINS * 3; i += step) bins[i] = 0;
begin_next();
wait_for_inputs();
Some<T> some = some_of(values, first, step, end);
const Rules wanted = rules_of(given, width, top_k + row, top_p + row, top_p + row);
Tops all{-INFINITY, -INFINITY};
Range range{0, Above{0, 0}, 0.0f};
if (level == 0) {
  all = tops_of_all(tops + row * groups, groups, members.lane);
} else {
  all.most = as_type<float>(state_of<KEY>(words, 0)[0]);
  range = range_after<KEY>(level, words, wanted, grain, shared, members);
}
const float floor = floor_of(wanted, all, groups, width);
#if !HIPRT_CPU_LOOPS
threadgroup_barrier(mem_flags::mem_threadgroup);
#endif
threadgroup uint* own = bins + index % by::COPIES * (by::BINS * 3);
const uint settled = by::below(level), left = by::below(level + 1);
for (uint at = first; at < end;) {
#pragma unroll
  for (uint i = 0; i < Some<T>::COUNT; i++) {
    const float value = float(some.values[i]);
    const uint key = by::key(value);
    if (at + i * step >= end || isnan(value) || (level > 0 && (key ^ range.low) >> settled != 0)) continue;
    threadgroup uint* bin = own + ((key >> left) & (by::BINS - 1)) * 3;
    add_in_group(bin, 1u);
    if (by::COUNTS && value >= floor) add_in_all(words + by::SUMMED + key, 1u);
    if (wanted.weighs) {
      const Mass mass = mass_of(value, all.most, grain);
      add_in_group(bin + 1, mass.low);
      if (mass.high > 0) add_in_group(bin + 2, mass.high);
    }
  }
  at += Some<T>::COUNT * step;
  if (at < end) some = some_of(values, at, step, end);
}
#if !HIPRT_CPU_LOOPS
threadgroup_barrier(mem_flags::mem_threadgroup);
#endif
device uint* sums = words + level * (by::BINS * SUMS);
for (uint bin = index; bin < by::BINS; bin += step) {
  uint count = 0, low = 0, high = 0;
  for (uint copy = 0; copy < by::COPIES; copy++) {
    const threadgroup uint* one = bins + (copy * by::BINS + bin) * 3;
    count += one[0];
    low += one[1];
    high += one[2];
  }
  if (count > 0) {
    const ulong mass = (ulong(high) << grain) + low;
    add_in_all(sums + bin * SUMS, count);
    if (wanted.weighs) {
      add_in_all(sums + bin * SUMS + 1, uint(mass) & 0x3ffffu);
      add_in_all(sums + bin * SUMS + 2, uint(mass >> 18) & 0x3ffffu);
      add_in_all(sums + bin * SUMS + 3, uint(mass >> 36));
    }
  }
}
if (index == 0 && group == 0) {
  device uint* state = words + (state_of<KEY>(words, level) - words);
  state[0] = level > 0 ? range.low : as_type<uint>(all.most);
  state[1] = range.above.count;
  state[2] = uint(range.above.mass);
  state[3] = uint(range.above.mass >> 32);
  state[4] = as_type<uint>(range.mass);
}
