// out = logits, but those of the last `window` tokens are divided by the penalty where positive and multiplied where
// not. One threadgroup: the copy is done before the first token is looked at.
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
  out[token] = T(value > 0.0f ? value / factor : value * factor);  // a token seen twice gets the same number twice
}
