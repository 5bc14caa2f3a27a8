// out = logits, of which those of the last `window` tokens are divided by the penalty where positive, and multiplied by it
// where not. A threadgroup finishes the copy of its share before it looks at the first token, and changes its share alone.
const uint step = threads_per_threadgroup.x;
const uint first = threadgroup_position_in_grid.x * share;
const uint last = min(width, first + share);
begin_next();
wait_for_inputs();
#pragma unroll 4
for (uint i = first + thread_index_in_threadgroup; i < last; i += step) out[i] = logits[i];
threadgroup_barrier(mem_flags::mem_device);
long end = min(long(position[0]) + 1, long(capacity));
long begin = max(end - long(window), long(0));
float factor = penalty[0];
for (long i = begin + long(thread_index_in_threadgroup); i < end; i += long(step)) {
  int token = tokens[i];
  if (token < 0 || uint(token) < first || uint(token) >= last) continue;
  float value = float(logits[token]);
  out[token] = T(value > 0.0f ? value / factor : value * factor);  // a token that is there twice is written twice, alike
}
