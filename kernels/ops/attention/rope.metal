// Rotates pairs of x by position * frequency. Frequencies and angles are unsigned fractions of a turn: whole turns drop out
// of the product as it wraps around, so an angle is as exact at position 1e6 as at 1. Only products and sums of float32
// follow, so that every target gets the same bits.
uint half_dims = dims / 2;
uint row = threadgroup_position_in_grid.z;
const device T* from = x + size_t(row) * heads * width;
device T* to = out + size_t(row) * heads * width;
#if HIPRT_CPU_LOOPS
uint first = 0;
uint end = half_dims + (width - dims);
uint first_head = 0;
uint end_head = heads;
#else
uint first = thread_position_in_grid.x;
uint end = min(first + 1, half_dims + (width - dims));
uint first_head = threadgroup_position_in_grid.y;
uint end_head = first_head + 1;
#endif
for (uint i = first; i < end; i++) {
  if (i >= half_dims) {
    uint at = i + half_dims;
    for (uint head = first_head; head < end_head; head++) to[head * width + at] = from[head * width + at];
    continue;
  }
  float2 angle = cos_sin(frequencies[i] * ulong(position[row]));
  uint left = TRADITIONAL ? 2 * i : i;
  uint right = TRADITIONAL ? 2 * i + 1 : i + half_dims;
  for (uint head = first_head; head < end_head; head++) {
    float a = float(from[head * width + left]);
    float b = float(from[head * width + right]);
    to[head * width + left] = T(a * angle.x - b * angle.y);
    to[head * width + right] = T(b * angle.x + a * angle.y);
  }
}
