// out = a + b. A thread takes RUN neighbours; a plain loop takes a stretch.
#if HIPRT_CPU_LOOPS
uint first = threadgroup_position_in_grid.x * stretch;
uint end = min(size, first + stretch);
uint i = first;
for (; i + 8 <= end; i += 8) store8(out + i, load8(a + i) + load8(b + i));
for (; i < end; i++) out[i] = T(float(a[i]) + float(b[i]));
#else
uint first = thread_position_in_grid.x * RUN;
if (first + RUN <= size) {
  pack<T, RUN> left = *(const device pack<T, RUN>*)(a + first);
  pack<T, RUN> right = *(const device pack<T, RUN>*)(b + first);
  pack<T, RUN> result;
  for (int i = 0; i < RUN; i++) result.values[i] = T(float(left.values[i]) + float(right.values[i]));
  *(device pack<T, RUN>*)(out + first) = result;
} else {
  for (uint i = first; i < size; i++) out[i] = T(float(a[i]) + float(b[i]));
}
#endif
