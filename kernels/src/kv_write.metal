// cache[head][position] = x[head]; a position outside the cache writes nothing.
int at = position[0];
if (at < 0 || uint(at) >= capacity) return;
#if HIPRT_CPU_LOOPS
for (uint head = 0; head < heads; head++) {
  for (uint i = 0; i < width; i++) cache[(size_t(head) * capacity + at) * width + i] = x[size_t(head) * width + i];
}
#else
uint i = thread_position_in_grid.x;
uint head = threadgroup_position_in_grid.y;
if (i < width) cache[(size_t(head) * capacity + at) * width + i] = x[size_t(head) * width + i];
#endif
