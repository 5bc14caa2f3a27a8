// cache[head][position] = x[head] of each row; a position outside the cache writes nothing. apart: positions of all heads
// between the caches of two rows, 0 where rows share one.
uint row = threadgroup_position_in_grid.z;
int at = position[row];
if (at < 0 || uint(at) >= capacity) return;
const device T* from = x + size_t(row) * heads * width;
device T* to = cache + (size_t(row) * apart + at) * width;
#if HIPRT_CPU_LOOPS
for (uint head = 0; head < heads; head++) {
  for (uint i = 0; i < width; i++) to[size_t(head) * capacity * width + i] = from[head * width + i];
}
#else
uint i = thread_position_in_grid.x;
uint head = threadgroup_position_in_grid.y;
if (i < width) to[size_t(head) * capacity * width + i] = from[head * width + i];
#endif
