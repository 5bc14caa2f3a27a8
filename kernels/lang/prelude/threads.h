// The indices of a thread, and barriers. A simdgroup is 32 lanes everywhere: on hardware with waves of 64 it is half a wave.
namespace metal {
namespace hiprt {

// The indices have Metal's names. THREADS is how many threads every threadgroup has, all along x, or 0 where that is not known
// when compiling: AMD's GPUs then read a threadgroup's size from implicit arguments, of which a launch lays out 256 bytes.
#if HIPRT_TARGET_AMD
HIPRT_INLINE uint3 thread_of_group() {
  return uint3(__builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(), __builtin_amdgcn_workitem_id_z());
}
HIPRT_INLINE uint3 group_of_grid() {
  return uint3(__builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(), __builtin_amdgcn_workgroup_id_z());
}
template <uint THREADS>
HIPRT_INLINE uint3 group_size() {
  if (THREADS) return uint3(THREADS, 1, 1);
  return uint3(__builtin_amdgcn_workgroup_size_x(), __builtin_amdgcn_workgroup_size_y(),
               __builtin_amdgcn_workgroup_size_z());
}
template <uint THREADS>
HIPRT_INLINE uint3 grid_groups() {
  return uint3(__builtin_amdgcn_grid_size_x(), __builtin_amdgcn_grid_size_y(), __builtin_amdgcn_grid_size_z()) /
         group_size<THREADS>();
}
#else
HIPRT_INLINE uint3 thread_of_group() { return uint3(threadIdx.x, threadIdx.y, threadIdx.z); }
HIPRT_INLINE uint3 group_of_grid() { return uint3(blockIdx.x, blockIdx.y, blockIdx.z); }
template <uint THREADS>
HIPRT_INLINE uint3 group_size() { return uint3(blockDim.x, blockDim.y, blockDim.z); }
template <uint THREADS>
HIPRT_INLINE uint3 grid_groups() { return uint3(gridDim.x, gridDim.y, gridDim.z); }
#endif
template <uint THREADS>
HIPRT_INLINE uint thread_index() {
  uint3 thread = thread_of_group(), size = group_size<THREADS>();
  if (THREADS) return thread.x;
  return thread.x + size.x * (thread.y + size.y * thread.z);
}
template <uint THREADS>
HIPRT_INLINE uint group_threads() {
  uint3 size = group_size<THREADS>();
  return size.x * size.y * size.z;
}

#if HIPRT_TARGET_AMD
HIPRT_INLINE uint hardware_lane() { return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0)); }
HIPRT_INLINE uint lane_index() { return hardware_lane() & 31u; }
#else
HIPRT_INLINE uint lane_index() { return thread_index<0>() & 31u; }
#endif

}  // namespace hiprt

enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2, mem_texture = 4 };
HIPRT_INLINE mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags(int(a) | int(b)); }

HIPRT_INLINE void threadgroup_barrier(mem_flags) {
#if HIPRT_TARGET_AMD
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
#else
  __syncthreads();
#endif
}

HIPRT_INLINE void simdgroup_barrier(mem_flags HIPRT_AT) {
#if HIPRT_TARGET_AMD
  __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
  __builtin_amdgcn_wave_barrier();
#elif HIPRT_TARGET_NVIDIA
  __syncwarp();
#else
  __hiprt_active(site, 0);
#endif
}

}  // namespace metal
