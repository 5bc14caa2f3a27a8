// One launch of the search in filter.h. given: bit 0 top_k, bit 1 top_p. level: how many launches there were before.
// An exponential counts in units of 2^(-2 * grain), and its upper and lower `grain` bits are added up by themselves.
typedef digits<KEY> by;
threadgroup uint shared[3 * 32 + 4];
threadgroup uint bins[by::COPIES * by::BINS * 3];
const uint lane = thread_index_in_simdgroup;
const uint simdgroup = simdgroup_index_in_threadgroup;
const uint simdgroups = simdgroups_per_threadgroup;
const uint index = thread_index_in_threadgroup;
const uint step = threads_per_threadgroup.x;
const uint group = threadgroup_position_in_grid.x;
const uint first = group * share + index;
const uint end = min(width, (group + 1) * share);
for (uint i = index; i < by::COPIES * by::BINS * 3; i += step) bins[i] = 0;
begin_next();
wait_for_inputs();
Some<T> some = some_of(logits, first, step, end);
const int k = (given & 1u) != 0 ? top_k[0] : 0;
const float p = (given & 2u) != 0 ? top_p[0] : 1.0f;
const Wanted wanted{k > 0 && uint(k) < width, p < 1.0f, uint(k), p};
const float top = level > 0 ? as_type<float>(state_of<KEY>(found, 0)[0]) : top_of_all(tops, groups, lane);
Range range{0, Above{0, 0}, 0.0f};
if (level > 0) range = range_after<KEY>(level, found, wanted, shared, index, step, lane, simdgroup, simdgroups);
#if !HIPRT_CPU_LOOPS
threadgroup_barrier(mem_flags::mem_threadgroup);
#endif
const float unit = float(1u << grain);
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
    if (wanted.weighs) {
      const float upper = (value == top ? 1.0f : exp(value - top)) * unit;
      const uint high = uint(upper);
      add_in_group(bin + 1, uint((upper - float(high)) * unit));
      if (high > 0) add_in_group(bin + 2, high);
    }
  }
  at += Some<T>::COUNT * step;
  if (at < end) some = some_of(logits, at, step, end);
}
#if !HIPRT_CPU_LOOPS
threadgroup_barrier(mem_flags::mem_threadgroup);
#endif
device uint* sums = found + level * (by::BINS * SUMS);
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
  device uint* state = found + (state_of<KEY>(found, level) - found);
  state[0] = level > 0 ? range.low : as_type<uint>(top);
  state[1] = range.above.count;
  state[2] = uint(range.above.mass);
  state[3] = uint(range.above.mass >> 32);
  state[4] = as_type<uint>(range.mass);
}
