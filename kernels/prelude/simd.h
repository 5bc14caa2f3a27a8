// Simdgroups, barriers and atomics. A simdgroup is 32 lanes everywhere: on hardware with waves of 64 it is half a wave.
// All 32 lanes must reach a simd_ function together; what a lane that is missing would have contributed is undefined.
namespace metal {

// Thread indices.
#if HIPRT_TARGET_AMD
HIPRT_INLINE uint3 thread_of_group() {
  return uint3(__builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(), __builtin_amdgcn_workitem_id_z());
}
HIPRT_INLINE uint3 group_of_grid() {
  return uint3(__builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(), __builtin_amdgcn_workgroup_id_z());
}
HIPRT_INLINE uint3 group_size() {
  return uint3(__builtin_amdgcn_workgroup_size_x(), __builtin_amdgcn_workgroup_size_y(),
               __builtin_amdgcn_workgroup_size_z());
}
HIPRT_INLINE uint3 grid_groups() {
  return uint3(__builtin_amdgcn_grid_size_x(), __builtin_amdgcn_grid_size_y(), __builtin_amdgcn_grid_size_z()) /
         group_size();
}
#else
HIPRT_INLINE uint3 thread_of_group() { return uint3(threadIdx.x, threadIdx.y, threadIdx.z); }
HIPRT_INLINE uint3 group_of_grid() { return uint3(blockIdx.x, blockIdx.y, blockIdx.z); }
HIPRT_INLINE uint3 group_size() { return uint3(blockDim.x, blockDim.y, blockDim.z); }
HIPRT_INLINE uint3 grid_groups() { return uint3(gridDim.x, gridDim.y, gridDim.z); }
#endif
HIPRT_INLINE uint thread_index() {
  uint3 thread = thread_of_group(), size = group_size();
  return thread.x + size.x * (thread.y + size.y * thread.z);
}
HIPRT_INLINE uint group_threads() {
  uint3 size = group_size();
  return size.x * size.y * size.z;
}

// Reading another lane's 32-bit word: by lane number, and by an exclusive or that is known when compiling.
#if HIPRT_TARGET_AMD
HIPRT_INLINE uint hardware_lane() { return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0)); }
HIPRT_INLINE uint lane_index() { return hardware_lane() & 31u; }
HIPRT_INLINE uint word_of_lane(uint word, uint lane) {
  return __builtin_amdgcn_ds_bpermute(((hardware_lane() & ~31u) | (lane & 31u)) << 2, word);
}
template <int MASK>
HIPRT_INLINE uint word_across(uint word) { return __builtin_amdgcn_ds_swizzle(word, (MASK << 10) | 31); }
#else
HIPRT_INLINE uint lane_index() { return thread_index() & 31u; }
#if HIPRT_TARGET_NVIDIA
HIPRT_INLINE uint word_of_lane(uint word, uint lane) { return __shfl_sync(~0u, word, lane, 32); }
template <int MASK>
HIPRT_INLINE uint word_across(uint word) { return __shfl_xor_sync(~0u, word, MASK, 32); }
#else
HIPRT_INLINE uint word_of_lane(uint word, uint lane) { return __shfl(word, int(lane), 32); }
template <int MASK>
HIPRT_INLINE uint word_across(uint word) { return __shfl_xor(word, MASK, 32); }
#endif
#endif

HIPRT_INLINE float word_of_lane(float v, uint lane) { return as_type<float>(word_of_lane(as_type<uint>(v), lane)); }
HIPRT_INLINE int word_of_lane(int v, uint lane) { return int(word_of_lane(uint(v), lane)); }
HIPRT_INLINE half word_of_lane(half v, uint lane) { return half(word_of_lane(float(v), lane)); }
HIPRT_INLINE bfloat16_t word_of_lane(bfloat16_t v, uint lane) { return bfloat16_t(word_of_lane(float(v), lane)); }
template <int MASK>
HIPRT_INLINE float word_across(float v) { return as_type<float>(word_across<MASK>(as_type<uint>(v))); }
template <int MASK>
HIPRT_INLINE int word_across(int v) { return int(word_across<MASK>(uint(v))); }

template <typename T>
HIPRT_INLINE T simd_shuffle(T v, uint lane) { return word_of_lane(v, lane); }
template <typename T>
HIPRT_INLINE T simd_broadcast(T v, uint lane) { return word_of_lane(v, lane); }
template <typename T>
HIPRT_INLINE T simd_shuffle_xor(T v, uint mask) { return word_of_lane(v, lane_index() ^ mask); }
template <typename T>
HIPRT_INLINE T simd_shuffle_up(T v, uint delta) {
  uint lane = lane_index();
  return word_of_lane(v, lane < delta ? lane : lane - delta);
}
template <typename T>
HIPRT_INLINE T simd_shuffle_down(T v, uint delta) {
  uint lane = lane_index();
  return word_of_lane(v, lane + delta > 31u ? lane : lane + delta);
}

// Butterflies: every lane ends with the same bits, and the order of the sums is the same on every target.
#define HIPRT_SIMD_REDUCTION(name, expression)                                                                \
  template <int MASK, typename T>                                                                             \
  HIPRT_INLINE T name##_step(T a) {                                                                           \
    T b = word_across<MASK>(a);                                                                               \
    return expression;                                                                                        \
  }                                                                                                           \
  template <typename T>                                                                                       \
  HIPRT_INLINE T name(T v) {                                                                                  \
    return name##_step<1>(name##_step<2>(name##_step<4>(name##_step<8>(name##_step<16>(v)))));                \
  }
HIPRT_SIMD_REDUCTION(simd_sum, a + b)
HIPRT_SIMD_REDUCTION(simd_product, a * b)
HIPRT_SIMD_REDUCTION(simd_max, max(a, b))
HIPRT_SIMD_REDUCTION(simd_min, min(a, b))
#undef HIPRT_SIMD_REDUCTION

enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2 };

HIPRT_INLINE void threadgroup_barrier(mem_flags) {
#if HIPRT_TARGET_AMD
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
#else
  __syncthreads();
#endif
}

HIPRT_INLINE void simdgroup_barrier(mem_flags) {
#if HIPRT_TARGET_AMD
  __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
  __builtin_amdgcn_wave_barrier();
#elif HIPRT_TARGET_NVIDIA
  __syncwarp();
#else
  word_of_lane(0u, 0u);  // lanes do not run in step here: any exchange between them is the meeting point
#endif
}

enum memory_order { memory_order_relaxed = 0 };

template <typename T>
struct atomic {
  T value;
};
typedef atomic<int> atomic_int;
typedef atomic<uint> atomic_uint;
typedef atomic<float> atomic_float;

#if HIPRT_TARGET_AMD
#define HIPRT_ATOMIC(metal_name, hip_name, builtin)                                                           \
  template <typename T, typename V>                                                                           \
  HIPRT_INLINE T metal_name(volatile atomic<T>* object, V operand, memory_order) {                            \
    return builtin((T*)&object->value, T(operand), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);               \
  }
#else
#define HIPRT_ATOMIC(metal_name, hip_name, builtin)                                                           \
  template <typename T, typename V>                                                                           \
  HIPRT_INLINE T metal_name(volatile atomic<T>* object, V operand, memory_order) {                            \
    return hip_name((T*)&object->value, T(operand));                                                          \
  }
#endif
HIPRT_ATOMIC(atomic_fetch_add_explicit, atomicAdd, __hip_atomic_fetch_add)
HIPRT_ATOMIC(atomic_fetch_max_explicit, atomicMax, __hip_atomic_fetch_max)
HIPRT_ATOMIC(atomic_fetch_min_explicit, atomicMin, __hip_atomic_fetch_min)
HIPRT_ATOMIC(atomic_exchange_explicit, atomicExch, __hip_atomic_exchange)
#undef HIPRT_ATOMIC
template <typename T>
HIPRT_INLINE T atomic_load_explicit(const volatile atomic<T>* object, memory_order) { return object->value; }
template <typename T, typename V>
HIPRT_INLINE void atomic_store_explicit(volatile atomic<T>* object, V operand, memory_order) {
  object->value = T(operand);
}

}  // namespace metal
