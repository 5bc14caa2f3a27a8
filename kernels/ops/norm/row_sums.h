// What the threads of a threadgroup have of a row, put together for all of them. On the CPU device one thread has it all.
namespace metal {

#if HIPRT_CPU_LOOPS
inline float sum_of_row(float part, threadgroup float*, uint, uint, uint) { return part; }
inline float top_of_row(float part, threadgroup float*, uint, uint, uint) { return part; }
#else
// parts: one element for each of up to 32 simdgroups; free again when the function returns.
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
