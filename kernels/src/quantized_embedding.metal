// out[i] = dequantised row ids[i] of the weights; rows that do not exist are zeros. The product is rounded to T before
// the bias is added, as MLX's CPU dequantisation does.
constexpr uint PER_WORD = 32 / BITS;
#if HIPRT_CPU_LOOPS
uint row = threadgroup_position_in_grid.x;
uint first = 0;
uint end = words;
#else
uint row = threadgroup_position_in_grid.y;
uint first = thread_position_in_grid.x;
uint end = min(words, first + 1);
#endif
int id = ids[row];
bool exists = id >= 0 && id < vocabulary;
size_t base = size_t(exists ? id : 0) * words;
for (uint i = first; i < end; i++) {
  uint word = exists ? weight[base + i] : 0u;
  size_t group = (base + i) * PER_WORD / GROUP;
  float scale = exists ? float(scales[group]) : 0.0f;
  float bias = exists ? float(biases[group]) : 0.0f;
  device T* to = out + (size_t(row) * words + i) * PER_WORD;
  for (uint j = 0; j < PER_WORD; j++) {
    float code = float((word >> (j * BITS)) & ((1u << BITS) - 1u));
    to[j] = T(float(T(code * scale)) + bias);
  }
}
