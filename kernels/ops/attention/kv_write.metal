// cache[head][position] = x[head] for each row; a position outside the cache writes nothing. cache_rows: rows of `width`
// elements from the cache of one row of x to that of the next, 0 where all write to one cache.
uint row = threadgroup_position_in_grid.z;
int at = position[row];
if (at < 0 || uint(at) >= capacity) return;
const device T* from = x + size_t(row) * heads * width;
device T* to = cache + (size_t(row) * cache_rows + at) * width;
#if HIPRT_CPU_LOOPS
for (uint head = 0; head < heads; head++) {
  for (uint i = 0; i < width; i++) to[size_t(head) * capacity * width + i] = from[head * width + i];
}
#else
uint i = thread_position_in_grid.x;
uint head = threadgroup_position_in_grid.y;
if (i < width) to[size_t(head) * capacity * width + i] = from[head * width + i];
#endif
