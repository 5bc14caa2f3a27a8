// The compiler's own atomic operations and fences in a program's text, any of which may release. Those of HIP's functions
// (cpu_atomic.h) do not.
#pragma once
#pragma GCC system_header

#define __atomic_thread_fence(...) (__hiprt_may_talk(), __atomic_thread_fence(__VA_ARGS__))
#define __sync_synchronize() (__hiprt_may_talk(), __sync_synchronize())

#define __hip_atomic_store(...) (__hiprt_may_talk(), __hip_atomic_store(__VA_ARGS__))
#define __hip_atomic_exchange(...) (__hiprt_may_talk(), __hip_atomic_exchange(__VA_ARGS__))
#define __hip_atomic_compare_exchange_strong(...) (__hiprt_may_talk(), __hip_atomic_compare_exchange_strong(__VA_ARGS__))
#define __hip_atomic_compare_exchange_weak(...) (__hiprt_may_talk(), __hip_atomic_compare_exchange_weak(__VA_ARGS__))
#define __hip_atomic_fetch_add(...) (__hiprt_may_talk(), __hip_atomic_fetch_add(__VA_ARGS__))
#define __hip_atomic_fetch_sub(...) (__hiprt_may_talk(), __hip_atomic_fetch_sub(__VA_ARGS__))
#define __hip_atomic_fetch_and(...) (__hiprt_may_talk(), __hip_atomic_fetch_and(__VA_ARGS__))
#define __hip_atomic_fetch_or(...) (__hiprt_may_talk(), __hip_atomic_fetch_or(__VA_ARGS__))
#define __hip_atomic_fetch_xor(...) (__hiprt_may_talk(), __hip_atomic_fetch_xor(__VA_ARGS__))
#ifndef __hip_atomic_fetch_min  // cpu_atomic.h has them where clang has no calls for them
#define __hip_atomic_fetch_min(...) (__hiprt_may_talk(), __hip_atomic_fetch_min(__VA_ARGS__))
#define __hip_atomic_fetch_max(...) (__hiprt_may_talk(), __hip_atomic_fetch_max(__VA_ARGS__))
#endif

#define __atomic_store(...) (__hiprt_may_talk(), __atomic_store(__VA_ARGS__))
#define __atomic_store_n(...) (__hiprt_may_talk(), __atomic_store_n(__VA_ARGS__))
#define __atomic_clear(...) (__hiprt_may_talk(), __atomic_clear(__VA_ARGS__))
#define __atomic_test_and_set(...) (__hiprt_may_talk(), __atomic_test_and_set(__VA_ARGS__))
#define __atomic_exchange(...) (__hiprt_may_talk(), __atomic_exchange(__VA_ARGS__))
#define __atomic_exchange_n(...) (__hiprt_may_talk(), __atomic_exchange_n(__VA_ARGS__))
#define __atomic_compare_exchange(...) (__hiprt_may_talk(), __atomic_compare_exchange(__VA_ARGS__))
#define __atomic_compare_exchange_n(...) (__hiprt_may_talk(), __atomic_compare_exchange_n(__VA_ARGS__))
#define __atomic_fetch_add(...) (__hiprt_may_talk(), __atomic_fetch_add(__VA_ARGS__))
#define __atomic_fetch_sub(...) (__hiprt_may_talk(), __atomic_fetch_sub(__VA_ARGS__))
#define __atomic_fetch_and(...) (__hiprt_may_talk(), __atomic_fetch_and(__VA_ARGS__))
#define __atomic_fetch_or(...) (__hiprt_may_talk(), __atomic_fetch_or(__VA_ARGS__))
#define __atomic_fetch_xor(...) (__hiprt_may_talk(), __atomic_fetch_xor(__VA_ARGS__))
#define __atomic_fetch_nand(...) (__hiprt_may_talk(), __atomic_fetch_nand(__VA_ARGS__))
#define __atomic_add_fetch(...) (__hiprt_may_talk(), __atomic_add_fetch(__VA_ARGS__))
#define __atomic_sub_fetch(...) (__hiprt_may_talk(), __atomic_sub_fetch(__VA_ARGS__))
#define __atomic_and_fetch(...) (__hiprt_may_talk(), __atomic_and_fetch(__VA_ARGS__))
#define __atomic_or_fetch(...) (__hiprt_may_talk(), __atomic_or_fetch(__VA_ARGS__))
#define __atomic_xor_fetch(...) (__hiprt_may_talk(), __atomic_xor_fetch(__VA_ARGS__))
#define __atomic_nand_fetch(...) (__hiprt_may_talk(), __atomic_nand_fetch(__VA_ARGS__))

#define __sync_fetch_and_add(...) (__hiprt_may_talk(), __sync_fetch_and_add(__VA_ARGS__))
#define __sync_fetch_and_sub(...) (__hiprt_may_talk(), __sync_fetch_and_sub(__VA_ARGS__))
#define __sync_fetch_and_or(...) (__hiprt_may_talk(), __sync_fetch_and_or(__VA_ARGS__))
#define __sync_fetch_and_and(...) (__hiprt_may_talk(), __sync_fetch_and_and(__VA_ARGS__))
#define __sync_fetch_and_xor(...) (__hiprt_may_talk(), __sync_fetch_and_xor(__VA_ARGS__))
#define __sync_add_and_fetch(...) (__hiprt_may_talk(), __sync_add_and_fetch(__VA_ARGS__))
#define __sync_sub_and_fetch(...) (__hiprt_may_talk(), __sync_sub_and_fetch(__VA_ARGS__))
#define __sync_bool_compare_and_swap(...) (__hiprt_may_talk(), __sync_bool_compare_and_swap(__VA_ARGS__))
#define __sync_val_compare_and_swap(...) (__hiprt_may_talk(), __sync_val_compare_and_swap(__VA_ARGS__))
#define __sync_lock_test_and_set(...) (__hiprt_may_talk(), __sync_lock_test_and_set(__VA_ARGS__))
#define __sync_lock_release(...) (__hiprt_may_talk(), __sync_lock_release(__VA_ARGS__))
