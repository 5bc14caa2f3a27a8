// out[i] = code * scale, rounded to T, plus the bias, rounded again, as MLX's CPU dequantisation does. One run of 8
// codes a thread: they fill whole bytes.
uint run = thread_position_in_grid.x;
if (run >= runs) return;
const device uchar* from = (const device uchar*)packed + size_t(run) * bits;
size_t group = size_t(run) * 8 / span;
float scale = scale_at<S>(scales, group, mode);
float bias = mode == AFFINE ? float(((const device S*)biases)[group]) : 0.0f;
device T* to = out + size_t(run) * 8;
for (uint i = 0; i < 8; i++) {
  float product = value_of(code_at(from, i, uint(bits)), mode) * scale;
  to[i] = mode == AFFINE ? T(float(S(float(S(product)) + bias))) : T(product);
}
