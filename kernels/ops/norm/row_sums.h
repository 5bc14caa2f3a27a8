// The sum and the largest value of a row, of which each thread of a threadgroup has a part; every thread gets the result. On
// the CPU device one thread has the whole row.
namespace metal {

#if HIPRT_CPU_LOOPS
inline float sum_of_row(float part, threadgroup float*, uint, uint, uint) { return part; }
inline float top_of_row(float part, threadgroup float*, uint, uint, uint) { return part; }
#else
// parts: one element for each of up to 32 simdgroups. The next call may use the same ones.
inline float sum_of_row(float part, threadgroup float* parts, uint lane, uint simdgroup, uint simdgroups) {
  part = simd_sum(part);
  if (lane == 0) parts[simdgroup] = part;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float total = 0.0f;
  for (uint i = 0; i < simdgroups; i++) total += parts[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  return total;
}
inline float top_of_row(float part, threadgroup float* parts, uint lane, uint simdgroup, uint simdgroups) {
  part = simd_max(part);
  if (lane == 0) parts[simdgroup] = part;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float top = parts[0];
  for (uint i = 1; i < simdgroups; i++) top = max(top, parts[i]);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  return top;
}
#endif

}  // namespace metal
