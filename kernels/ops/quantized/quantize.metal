// One group a thread: the end of its range farther from zero is met exactly, and so is zero where in reach. Codes are
// taken with the float32 scale and bias; only what is stored is rounded to T.
uint g = thread_position_in_grid.x;
if (g >= groups) return;
const device T* from = w + size_t(g) * span;
float low = INFINITY;
float high = -INFINITY;
for (uint i = 0; i < span; i++) {
  float value = float(from[i]);
  low = value < low ? value : low;
  high = value > high ? value : high;
}
float top = float((1u << bits) - 1u);
bool is_low = fabs(low) > fabs(high);
float scale = max((high - low) / top, 1e-7f);
scale = is_low ? scale : -scale;
float edge = is_low ? low : high;
float code_of_zero = rint(edge / scale);
float bias = 0.0f;
if (code_of_zero != 0.0f) {
  scale = edge / code_of_zero;
  bias = edge;
}
scales[g] = T(scale);
biases[g] = T(bias);
device uint* to = packed + size_t(g) * (span / 32) * bits;
uint word = 0;
uint used = 0;
for (uint i = 0; i < span; i++) {
  uint code = uint(clamp(rint((float(from[i]) - bias) / scale), 0.0f, top));
  word |= code << used;
  used += bits;
  if (used >= 32) {
    *to++ = word;
    used -= 32;
    word = used ? code >> (bits - used) : 0u;
  }
}
