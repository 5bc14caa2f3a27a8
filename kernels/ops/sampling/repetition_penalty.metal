// out = logits, of which those of the last `window` tokens are divided by the penalty where positive, and multiplied by it
// where not. There is one threadgroup, which finishes the copy before it looks at the first token.
const uint step = threads_per_threadgroup.x;
for (uint i = thread_index_in_threadgroup; i < width; i += step) out[i] = logits[i];
threadgroup_barrier(mem_flags::mem_device);
long end = min(long(position[0]) + 1, long(capacity));
long begin = max(end - long(window), long(0));
float factor = penalty[0];
for (long i = begin + long(thread_index_in_threadgroup); i < end; i += long(step)) {
  int token = tokens[i];
  if (token < 0 || uint(token) >= width) continue;
  float value = float(logits[token]);
  out[token] = T(value > 0.0f ? value / factor : value * factor);  // a token that is there twice is written twice, alike
}
