// The names of plain HIP that hiprtc defines by itself. The offline compiler for AMD has no HIP headers and needs them.
#define __host__ __attribute__((host))
#define __constant__ __attribute__((constant))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#undef __launch_bounds__
#define __launch_bounds__(threads, ...) __attribute__((amdgpu_flat_work_group_size(1, threads)))
#define HIP_DYNAMIC_SHARED(type, name) extern __shared__ type name[]
#define HIPRT_HIP __device__ inline __attribute__((always_inline, unused))

typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
typedef decltype(sizeof(0)) size_t;
typedef unsigned long uintptr_t;

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

#define HIPRT_AXIS(name, axis, value)                \
  HIPRT_HIP unsigned name##_##axis() const { return value; } \
  __declspec(property(get = name##_##axis)) unsigned axis;
#define HIPRT_INDEX(name, prefix)                              \
  struct hiprt_##name {                                        \
    HIPRT_AXIS(name, x, __builtin_amdgcn_##prefix##_x())       \
    HIPRT_AXIS(name, y, __builtin_amdgcn_##prefix##_y())       \
    HIPRT_AXIS(name, z, __builtin_amdgcn_##prefix##_z())       \
    HIPRT_HIP operator dim3() const { return dim3(x, y, z); } \
  };                                                           \
  extern const __device__ __attribute__((weak)) hiprt_##name name;
HIPRT_INDEX(threadIdx, workitem_id)
HIPRT_INDEX(blockIdx, workgroup_id)
HIPRT_INDEX(blockDim, workgroup_size)
struct hiprt_gridDim {
  HIPRT_AXIS(gridDim, x, __builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x())
  HIPRT_AXIS(gridDim, y, __builtin_amdgcn_grid_size_y() / __builtin_amdgcn_workgroup_size_y())
  HIPRT_AXIS(gridDim, z, __builtin_amdgcn_grid_size_z() / __builtin_amdgcn_workgroup_size_z())
  HIPRT_HIP operator dim3() const { return dim3(x, y, z); }
};
extern const __device__ __attribute__((weak)) hiprt_gridDim gridDim;
#undef HIPRT_INDEX
#undef HIPRT_AXIS

#define HIPRT_VECTORS(scalar, name)                                                                     \
  typedef scalar name##2 __attribute__((ext_vector_type(2)));                                           \
  typedef scalar name##3 __attribute__((ext_vector_type(3)));                                           \
  typedef scalar name##4 __attribute__((ext_vector_type(4)));                                           \
  HIPRT_HIP name##2 make_##name##2(scalar x, scalar y) { return name##2{x, y}; }                        \
  HIPRT_HIP name##3 make_##name##3(scalar x, scalar y, scalar z) { return name##3{x, y, z}; }           \
  HIPRT_HIP name##4 make_##name##4(scalar x, scalar y, scalar z, scalar w) { return name##4{x, y, z, w}; }
HIPRT_VECTORS(signed char, char)
HIPRT_VECTORS(unsigned char, uchar)
HIPRT_VECTORS(short, short)
HIPRT_VECTORS(unsigned short, ushort)
HIPRT_VECTORS(int, int)
HIPRT_VECTORS(unsigned, uint)
HIPRT_VECTORS(long long, longlong)
HIPRT_VECTORS(float, float)
HIPRT_VECTORS(double, double)
#undef HIPRT_VECTORS

typedef _Float16 __half;
typedef _Float16 half;
HIPRT_HIP float __half2float(__half x) { return float(x); }
HIPRT_HIP __half __float2half(float x) { return __half(x); }

HIPRT_HIP void __threadfence_block() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup"); }
HIPRT_HIP void __threadfence() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent"); }
HIPRT_HIP void __syncthreads() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

#ifdef __GFX9__
#define warpSize 64
#else
#define warpSize 32
#endif
HIPRT_HIP int __lane_id() { return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0)); }
template <typename T>
HIPRT_HIP T hiprt_lane(T value, int lane) {
  static_assert(sizeof(T) == 4, "shuffles take 32-bit values");
  return __builtin_bit_cast(T, __builtin_amdgcn_ds_bpermute(lane << 2, __builtin_bit_cast(int, value)));
}
template <typename T>
HIPRT_HIP T __shfl(T value, int lane, int width = warpSize) {
  return hiprt_lane(value, (__lane_id() & -width) + (lane & (width - 1)));
}
template <typename T>
HIPRT_HIP T __shfl_xor(T value, int mask, int width = warpSize) {
  int self = __lane_id(), lane = self ^ mask;
  return hiprt_lane(value, lane >= ((self + width) & -width) ? self : lane);
}
template <typename T>
HIPRT_HIP T __shfl_up(T value, unsigned delta, int width = warpSize) {
  int self = __lane_id(), lane = self - int(delta);
  return hiprt_lane(value, lane < (self & -width) ? self : lane);
}
template <typename T>
HIPRT_HIP T __shfl_down(T value, unsigned delta, int width = warpSize) {
  int self = __lane_id();
  return hiprt_lane(value, (self & (width - 1)) + int(delta) >= width ? self : self + int(delta));
}
#if warpSize == 64
HIPRT_HIP unsigned long long __ballot(int predicate) { return __builtin_amdgcn_ballot_w64(predicate != 0); }
#else
HIPRT_HIP unsigned long long __ballot(int predicate) { return __builtin_amdgcn_ballot_w32(predicate != 0); }
#endif
HIPRT_HIP int __any(int predicate) { return __ballot(predicate) != 0; }
HIPRT_HIP int __all(int predicate) { return __ballot(!predicate) == 0; }

HIPRT_HIP int __popc(unsigned x) { return __builtin_popcount(x); }
HIPRT_HIP int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
HIPRT_HIP int __clz(int x) { return x ? __builtin_clz(x) : 32; }
HIPRT_HIP int __ffs(int x) { return __builtin_ffs(x); }
HIPRT_HIP unsigned __umulhi(unsigned a, unsigned b) { return unsigned((uint64_t(a) * b) >> 32); }
HIPRT_HIP float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
HIPRT_HIP float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
HIPRT_HIP int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
HIPRT_HIP unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }

#define HIPRT_ATOMIC(hip_name, builtin)                                                              \
  template <typename T, typename V>                                                                  \
  HIPRT_HIP T hip_name(T* object, V operand) {                                                       \
    return builtin(object, T(operand), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);                  \
  }
HIPRT_ATOMIC(atomicAdd, __hip_atomic_fetch_add)
HIPRT_ATOMIC(atomicMax, __hip_atomic_fetch_max)
HIPRT_ATOMIC(atomicMin, __hip_atomic_fetch_min)
HIPRT_ATOMIC(atomicAnd, __hip_atomic_fetch_and)
HIPRT_ATOMIC(atomicOr, __hip_atomic_fetch_or)
HIPRT_ATOMIC(atomicXor, __hip_atomic_fetch_xor)
HIPRT_ATOMIC(atomicExch, __hip_atomic_exchange)
#undef HIPRT_ATOMIC
template <typename T>
HIPRT_HIP T atomicSub(T* object, T operand) { return atomicAdd(object, -operand); }
template <typename T>
HIPRT_HIP T atomicCAS(T* object, T expected, T desired) {
  __hip_atomic_compare_exchange_strong(object, &expected, desired, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                       __HIP_MEMORY_SCOPE_AGENT);
  return expected;
}

#define HIPRT_MATH(name) HIPRT_HIP float name##f(float x) { return __builtin_##name##f(x); }
HIPRT_MATH(exp)
HIPRT_MATH(exp2)
HIPRT_MATH(log)
HIPRT_MATH(log2)
HIPRT_MATH(log10)
HIPRT_MATH(sqrt)
HIPRT_MATH(fabs)
HIPRT_MATH(floor)
HIPRT_MATH(ceil)
HIPRT_MATH(rint)
HIPRT_MATH(round)
HIPRT_MATH(trunc)
#undef HIPRT_MATH
HIPRT_HIP float rsqrtf(float x) { return __builtin_amdgcn_rsqf(x); }
HIPRT_HIP float powf(float x, float y) { return __builtin_powf(x, y); }
HIPRT_HIP float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
HIPRT_HIP float fminf(float a, float b) { return __builtin_fminf(a, b); }
HIPRT_HIP float fmaxf(float a, float b) { return __builtin_fmaxf(a, b); }
HIPRT_HIP float __expf(float x) { return __builtin_expf(x); }
HIPRT_HIP float __logf(float x) { return __builtin_logf(x); }
HIPRT_HIP float __fdividef(float a, float b) { return a / b; }
HIPRT_HIP float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
HIPRT_HIP bool isnan(float x) { return x != x; }
HIPRT_HIP bool isinf(float x) { return __builtin_fabsf(x) == __builtin_huge_valf(); }
template <typename T>
HIPRT_HIP T min(T a, T b) { return b < a ? b : a; }
template <typename T>
HIPRT_HIP T max(T a, T b) { return a < b ? b : a; }
#define INFINITY __builtin_huge_valf()
#define NAN __builtin_nanf("")
#undef HIPRT_HIP
