// out[i] = dequantised row ids[i] of the weights; rows that do not exist are zeros. One run of 8 codes a thread: they
// fill whole bytes. Products are rounded to T before the bias is added, as MLX's CPU dequantisation does.
uint row = threadgroup_position_in_grid.y;
uint run = thread_position_in_grid.x;
if (run >= runs) return;
int id = ids[row];
bool exists = id >= 0 && id < vocabulary;
device T* to = out + (size_t(row) * runs + run) * 8;
size_t at = size_t(exists ? id : 0) * runs + run;
const device uchar* from = (const device uchar*)weight + at * bits;
size_t group = at * 8 / span;
float scale = exists ? scale_at<T>(scales, group, mode) : 0.0f;
float bias = exists && mode == AFFINE ? float(((const device T*)biases)[group]) : 0.0f;
for (uint i = 0; i < 8; i++) {
  float product = exists ? value_of(code_at(from, i, bits), mode) * scale : 0.0f;
  to[i] = mode == AFFINE ? T(float(T(product)) + bias) : T(product);
}
