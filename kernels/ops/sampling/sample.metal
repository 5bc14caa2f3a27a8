// argmax(logits / temperature - log(-log(u))), u uniform in (0, 1): a draw from softmax(logits / temperature).
// Temperature 0 draws the largest logit. A thread takes RUN neighbours at a time. Several threadgroups may take a row, as in
// reduction/argmax. Where KEY is not 0, logits that the rules in filter.h do not keep count as -inf.
const uint row = threadgroup_position_in_grid.x / groups;
begin_next();
wait_for_inputs();
const device T* values = logits + size_t(row) * width;
float heat = temperature[row];
bool greedy = !(heat > 0.0f);
float inverse = greedy ? 1.0f : 1.0f / heat;
uint key = seed[row];
uint draw = uint(position[row]);
#if HIPRT_CPU_LOOPS
Largest8 lanes = lowest8();
uint i = 0;
for (; i + 8 <= width; i += 8) {
  f32x8 value = load8(values + i);
  if (!greedy) {
    const u32x8 place = u32x8{0, 1, 2, 3, 4, 5, 6, 7} + i;
    f32x8 u = mad(number_of((i32x8)noise_bits(key, draw, place)), splat(1.1920929e-7f), splat(5.96046448e-8f));
    value = value * splat(inverse) - log_of(-log_of(u));
  }
  consider8(lanes, value, int(i));
}
Largest best = i > 0 ? merge8(lanes) : Largest{LOWEST_KEY, 0u};
const uint step = 1, end = width;
#else
threadgroup int keys[32];
threadgroup uint places[32];
threadgroup uint answer;
threadgroup uint shared[3 * 32 + 4];
Largest best{LOWEST_KEY, 0xffffffffu};
const uint step = threads_per_threadgroup.x * RUN;
const uint group = threadgroup_position_in_grid.x % groups, first = group * share;
const uint end = min(width, first + share);
const uint begin = first + thread_index_in_threadgroup * RUN;
uint i = begin;
pack<T, RUN> early;  // asked for before the rules are looked at
Kept<KEY> kept{0, -INFINITY};
if (KEY != 0) {
  if (i < end) early = *(const device pack<T, RUN>*)(values + i);
  const Rules rules = rules_of(given, width, top_k + row, top_p + row, min_p + row);
  const Members members{thread_index_in_threadgroup, threads_per_threadgroup.x, thread_index_in_simdgroup,
                        simdgroup_index_in_threadgroup, simdgroups_per_threadgroup};
  kept = kept_by<KEY>(rules, level, found + size_t(row) * digits<KEY>::WORDS, tops + row * groups, groups, grain, shared, members);
}
#endif
#pragma unroll 4
for (; i < end; i += step) {
#if HIPRT_CPU_LOOPS
  const pack<T, RUN> part = *(const device pack<T, RUN>*)(values + i);
#else
  pack<T, RUN> part;
  if (KEY != 0 && i == begin) {
    part = early;
  } else {
    part = *(const device pack<T, RUN>*)(values + i);
  }
#endif
  for (uint j = 0; j < RUN; j++) {
    float value = float(part.values[j]);
#if !HIPRT_CPU_LOOPS
    if (KEY != 0 && !kept.has(value)) value = -INFINITY;
#endif
    if (!greedy) {
      float u = mad(float(noise_bits(key, draw, i + j)), 1.1920929e-7f, 5.96046448e-8f);
      value = value * inverse - log(-log(u));
    }
    int order = order_key(value);
    if (order > best.key) best = Largest{order, i + j};
  }
}
#if HIPRT_CPU_LOOPS
out[row] = int(best.place);
#else
LargestShare taken{parts, arrived, row, group, groups, is_counted};
taken.put(best, out, keys, places, &answer, thread_index_in_threadgroup, threads_per_threadgroup.x, thread_index_in_simdgroup,
          simdgroup_index_in_threadgroup, simdgroups_per_threadgroup);
#endif
