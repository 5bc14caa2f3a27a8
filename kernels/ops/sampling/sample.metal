// argmax(logits / temperature - log(-log(u))), u uniform in (0, 1): a draw from softmax(logits / temperature).
// Temperature 0 draws the largest logit. A thread takes RUN neighbours at a time. Several threadgroups may take a row, as in
// reduction/argmax.
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
Largest best{LOWEST_KEY, 0xffffffffu};
const uint step = threads_per_threadgroup.x * RUN;
const uint first = threadgroup_position_in_grid.x % groups * share;
const uint end = min(width, first + share);
uint i = first + thread_index_in_threadgroup * RUN;
#endif
#pragma unroll 4
for (; i < end; i += step) {
  const pack<T, RUN> part = *(const device pack<T, RUN>*)(values + i);
  for (uint j = 0; j < RUN; j++) {
    float value = float(part.values[j]);
    if (!greedy) {
      float u = mad(float(noise_bits(key, draw, i + j)), 1.1920929e-7f, 5.96046448e-8f);
      value = value * inverse - log(-log(u));
    }
    int order = order_key(value);
    if (order > best.key) best = Largest{order, i + j};
  }
}
#if !HIPRT_CPU_LOOPS
best = largest_of_threadgroup(best, keys, places, thread_index_in_simdgroup, simdgroup_index_in_threadgroup,
                              simdgroups_per_threadgroup);
if (thread_index_in_threadgroup == 0)
#endif
write_largest(best, out, threadgroup_position_in_grid.x, groups);
