// One group a thread. The largest value over the largest code is rounded to T and then to a scale, and so are the values
// over the scale before they become codes, as in MLX's CPU build.
uint g = thread_position_in_grid.x;
if (g >= groups) return;
const uint span = mode == NVFP4 ? 16 : 32, bits = mode == MXFP8 ? 8 : 4;
const device T* from = w + size_t(g) * span;
float largest = 0.0f;
for (uint i = 0; i < span; i++) largest = max(largest, fabs(float(from[i])));
const float step = float(T(largest / (mode == MXFP8 ? 448.0f : 6.0f)));
float scale;
if (mode == NVFP4) {
  const uint code = to_e4m3(step);
  scales[g] = uchar(code);
  scale = e4m3(code);
} else {
  const int exponent = step > 0.0f ? exponent_above(step) : 0;
  scales[g] = uchar(exponent + 127);
  scale = power_of_two(exponent);
}
device uint* to = packed + size_t(g) * (span * bits / 32);
for (uint i = 0; i < span; i += 32 / bits) {
  uint word = 0;
  for (uint j = 0; j < 32 / bits; j++) {
    const float value = float(T(float(from[i + j]) / scale));
    word |= (mode == MXFP8 ? to_e4m3(value) : to_e2m1(value)) << (j * bits);
  }
  *to++ = word;
}
