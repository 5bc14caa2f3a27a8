// out = gate / (1 + exp(-gate)) * up. A thread takes RUN neighbours; a plain loop takes a stretch.
#if HIPRT_CPU_LOOPS
uint first = threadgroup_position_in_grid.x * stretch;
uint end = min(size, first + stretch);
uint i = first;
for (; i + 8 <= end; i += 8) {
  f32x8 g = load8(gate + i);
  store8(out + i, g / (splat(1.0f) + exp_of(-g)) * load8(up + i));
}
for (; i < end; i++) out[i] = T(float(gate[i]) / (1.0f + exp(-float(gate[i]))) * float(up[i]));
#else
uint first = thread_position_in_grid.x * RUN;
if (first + RUN <= size) {
  pack<T, RUN> g = *(const device pack<T, RUN>*)(gate + first);
  pack<T, RUN> u = *(const device pack<T, RUN>*)(up + first);
  pack<T, RUN> result;
  for (int i = 0; i < RUN; i++) {
    float x = float(g.values[i]);
    result.values[i] = T(x / (1.0f + exp(-x)) * float(u.values[i]));
  }
  *(device pack<T, RUN>*)(out + first) = result;
} else {
  for (uint i = first; i < size; i++) {
    float x = float(gate[i]);
    out[i] = T(x / (1.0f + exp(-x)) * float(up[i]));
  }
}
#endif
