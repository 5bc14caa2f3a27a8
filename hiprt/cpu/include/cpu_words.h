// The words of HIP that a text keeps until it has been scanned (compile/scanner.cpp, compile/reconvergence.cpp): qualifiers, and
// warp operations, which number their places. Included twice: by the prelude, and before the preprocessed text of a program
// for hipcc, which is macros' last chance.
#pragma once
#pragma GCC system_header

#include "cpu_talk.h"

#ifdef __HIPRT_HIPCC__
#undef __global__
#undef __shared__
#undef __device__
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#ifdef __HIP_DEVICE_COMPILE__
#define __shared__ __attribute__((shared, require_constant_initialization)) thread_local
#else
#define __shared__ __attribute__((shared))
#endif
#define __launch_bounds__(...)
#define __hiprt_indices                                                                                      \
  [[maybe_unused]] const __hiprt_index threadIdx = __hiprt_record_index::of(__hiprt_self()->thread),         \
                                       blockIdx = __hiprt_record_index::of(__hiprt_self()->block),           \
                                       blockDim = __hiprt_record_index::of(__hiprt_self()->block_dim),       \
                                       gridDim = __hiprt_record_index::of(__hiprt_self()->grid_dim);
#ifdef __HIPRT_CHECK__
#define __hiprt_fence_block() __hiprt_host_table->fence(0)
#define __hiprt_name_thread(number)                                                             \
  __hiprt_checked()->thread = (number);                                                         \
  __hiprt_checked()->self = __hiprt_checked()->first + __hiprt_checked()->thread;
#else
#define __hiprt_fence_block() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define __hiprt_name_thread(number)
#endif
#endif

#define __shfl(...) __hiprt_shfl(__COUNTER__, 0, __VA_ARGS__)
#define __shfl_up(...) __hiprt_shfl_up(__COUNTER__, 0, __VA_ARGS__)
#define __shfl_down(...) __hiprt_shfl_down(__COUNTER__, 0, __VA_ARGS__)
#define __shfl_xor(...) __hiprt_shfl_xor(__COUNTER__, 0, __VA_ARGS__)
#define __shfl_sync(...) __hiprt_shfl_sync(__COUNTER__, __VA_ARGS__)
#define __shfl_up_sync(...) __hiprt_shfl_up_sync(__COUNTER__, __VA_ARGS__)
#define __shfl_down_sync(...) __hiprt_shfl_down_sync(__COUNTER__, __VA_ARGS__)
#define __shfl_xor_sync(...) __hiprt_shfl_xor_sync(__COUNTER__, __VA_ARGS__)
#define __ballot(predicate) __hiprt_ballot(__COUNTER__, 0, (predicate) != 0)
#define __ballot_sync(mask, predicate) __hiprt_ballot(__COUNTER__, __hiprt_mask(mask), (predicate) != 0)
#define __any(predicate) int(__hiprt_ballot(__COUNTER__, 0, (predicate) != 0) != 0)
#define __any_sync(mask, predicate) int(__hiprt_ballot(__COUNTER__, __hiprt_mask(mask), (predicate) != 0) != 0)
#define __all(predicate) int(__hiprt_ballot(__COUNTER__, 0, !((predicate) != 0)) == 0)
#define __all_sync(mask, predicate) int(__hiprt_ballot(__COUNTER__, __hiprt_mask(mask), !((predicate) != 0)) == 0)
#define __activemask() __hiprt_active(__COUNTER__, 0)
#define __syncwarp(...) ((void)__hiprt_active(__COUNTER__, 0ull __VA_OPT__(| __hiprt_mask(__VA_ARGS__))))
#define __match_any(value) __hiprt_match_any(__COUNTER__, 0, __hiprt_match_bits(value))
#define __match_any_sync(mask, value) __hiprt_match_any(__COUNTER__, __hiprt_mask(mask), __hiprt_match_bits(value))
#define __match_all(value, all) __hiprt_match_all(__COUNTER__, 0, __hiprt_match_bits(value), all)
#define __match_all_sync(mask, value, all) __hiprt_match_all(__COUNTER__, __hiprt_mask(mask), __hiprt_match_bits(value), all)
