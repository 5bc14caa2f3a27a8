// Quirks: defects of ROCm's runtime (CLR) that the device imitates when HIPRT_CPU_QUIRKS or HIPRT_CPU_PROFILE asks for
// them.
//
// A quirk is one branch at the place of the right behaviour, whose comment names CLR's source file and lines, or the
// issue of ROCm's repositories, that it follows. A result that is undefined in CLR is poison here (check/poison.h); no
// quirk reads or writes memory that is not there. Only a quirk that is a crash by definition aborts the process.
//
// To add one: a line here, a branch where it applies, its profiles in profiles.cpp, a test in tests/quirks.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cpu {

// One line for each quirk: X(enumerator, name in the environment).
#define HIPRT_CPU_QUIRKS(X)                                       \
  X(ParamsByPointer, params_by_pointer)                           \
  X(GetparamsAlias, getparams_alias)                              \
  X(GetparamsExtra, getparams_extra)                              \
  X(GetparamsFlatCopy, getparams_flat_copy)                       \
  X(ParamInfoMissing, param_info_missing)                         \
  X(SetparamsValidateOldFunc, setparams_validate_old_func)        \
  X(UpdateBfsCountOnly, update_bfs_count_only)                    \
  X(UpdatePartial, update_partial)                                \
  X(UpdateNoDepCheck, update_no_dep_check)                        \
  X(MemcpyFlavourUb, memcpy_flavour_ub)                           \
  X(ChildUpdateSelfcopy, child_update_selfcopy)                   \
  X(ChildUpdateStalePackets, child_update_stale_packets)          \
  X(UpdateSwallowError, update_swallow_error)                     \
  X(KernargBumpLeak, kernarg_bump_leak)                           \
  X(KernargNullCrash, kernarg_null_crash)                         \
  X(UpdateNoFlush, update_no_flush)                               \
  X(BatchStale, batch_stale)                                      \
  X(GenericSetparamsStale, generic_setparams_stale)               \
  X(NodeHandleReuse, node_handle_reuse)                           \
  X(MultirootNoLaunchWait, multiroot_no_launch_wait)              \
  X(FanoutDrop, fanout_drop)                                      \
  X(DisabledDropsEdges, disabled_drops_edges)                     \
  X(ChildNoSync, child_no_sync)                                   \
  X(ChildOfItself, child_of_itself)                               \
  X(ParallelShuffle, parallel_shuffle)                            \
  X(ExecOverlap, exec_overlap)                                    \
  X(UpdateInflightVisible, update_inflight_visible)               \
  X(DestroyImmediate, destroy_immediate)                          \
  X(SlowCompletion, slow_completion)                              \
  X(HostParamsLive, host_params_live)                             \
  X(DisabledListStale, disabled_list_stale)                       \
  X(DeviceBinding, device_binding)                                \
  X(FuncReject, func_reject)                                      \
  X(ZeroDimReject, zero_dim_reject)                               \
  X(FillShapeReject, fill_shape_reject)                           \
  X(AddFailKeepsNode, add_fail_keeps_node)                        \
  X(InstantiateGarbageHandle, instantiate_garbage_handle)         \
  X(EndcaptureGarbageHandle, endcapture_garbage_handle)           \
  X(CaptureSyncInvalidatesAll, capture_sync_invalidates_all)      \
  X(CaptureDevsync900, capture_devsync_900)                       \
  X(CaptureMalloc900, capture_malloc_900)                         \
  X(CaptureExternalWaitCrash, capture_external_wait_crash)        \
  X(CaptureLazyJoin, capture_lazy_join)                           \
  X(CaptureHolesLt7, capture_holes_lt7)                           \
  X(EventOfCapturedStream, event_of_captured_stream)              \
  X(WaitForCapturedStream, wait_for_captured_stream)              \
  X(EventOfGoneStream, event_of_gone_stream)                      \
  X(PoolThresholdIgnored, pool_threshold_ignored)                 \
  X(PoolLowMemBlock, pool_low_mem_block)                          \
  X(PoolOversizeReuse, pool_oversize_reuse)                       \
  X(PoolRetagRace, pool_retag_race)                               \
  X(PoolOomFault, pool_oom_fault)                                 \
  X(PoolsUnsupportedAttr, pools_unsupported_attr)                 \
  X(DestroyedHandle709, destroyed_handle_709)                     \
  X(FreeasyncNullError, freeasync_null_error)                     \
  X(FreeTakesHostMemory, free_takes_host_memory)                  \
  X(RegisterTwice, register_twice)                                \
  X(CodesLt7, codes_lt7)                                          \
  X(IpcEventNeverWaits, ipc_event_never_waits)                    \
  X(AutofreeDeviceWide, autofree_device_wide)                     \
  X(AllocNodeOnce, alloc_node_once)                               \
  X(NodetypeBase1, nodetype_base1)                                \
  X(Nodetype54, nodetype_54)                                      \
  X(MemsetLayout, memset_layout)                                  \
  X(PoisonOnFree, poison_on_free)                                 \
  X(LasterrorOverwrite, lasterror_overwrite)                      \
  X(ArgGuard, arg_guard)

enum class Quirk : size_t {
#define HIPRT_CPU_ENUMERATOR(enumerator, name) enumerator,
  HIPRT_CPU_QUIRKS(HIPRT_CPU_ENUMERATOR)
#undef HIPRT_CPU_ENUMERATOR
};

#define HIPRT_CPU_ONE(enumerator, name) +1
constexpr size_t kQuirks = 0 HIPRT_CPU_QUIRKS(HIPRT_CPU_ONE);
#undef HIPRT_CPU_ONE

// The numbers that an item name=value of HIPRT_CPU_QUIRKS sets.
struct QuirkNumbers {
  size_t kernarg_limit = size_t{32} << 20;  // most bytes of arguments that an executable graph may take
  uint32_t queues = 4;                      // Q: the streams that fanout_drop spreads a graph over
  double probability = 0.5;                 // how often a quirk that is left to chance shows
};

// Both are written while the library is loaded and do not change afterwards.
extern bool quirk_table[kQuirks];
extern QuirkNumbers quirk_numbers;

// The names in the environment, indexed by quirk.
extern const char *const quirk_names[kQuirks];

inline bool quirk(Quirk q) { return quirk_table[static_cast<size_t>(q)]; }

// Returns whether a quirk that is left to chance shows this time.
bool by_chance();

// Ends the process; for quirks that are a crash by definition.
[[noreturn]] void crash(Quirk q, const char *what);

}  // namespace cpu
