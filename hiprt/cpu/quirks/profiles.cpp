#include "quirks/profiles.h"

namespace cpu {
namespace {

using Group = std::vector<Quirk>;

// Versions and sources: hip-graphs-clr-vs-cuda, the section or ordering defect (O1 to O11) in brackets. A defect whose
// effect has not been observed (update_no_flush), or that switches a whole rung of ours off, is in no profile.

// Read in every CLR from 6.2 to 10.0.
const Group kEvery = {
    Quirk::GetparamsAlias,            // 5.6 to 10 [1.3]
    Quirk::SetparamsValidateOldFunc,  // [1.4]
    Quirk::UpdateBfsCountOnly,        // position in breadth-first order, number of dependencies since 6.0 [2.1]
    Quirk::UpdatePartial,             // node by node, not undone [2.1]
    Quirk::MemcpyFlavourUb,           // static_cast between the classes of copies [2.2]
    Quirk::KernargBumpLeak,           // a new slot for each update, freed with the executable graph [2.7]
    Quirk::NodeHandleReuse,           // handles are addresses [2.6]
    Quirk::ExecOverlap,               // nothing orders launches on different streams [3.3]
    Quirk::HostParamsLive,            // host nodes hold a pointer to their parameters [3.4]
    Quirk::DeviceBinding,             // the thread's current device decides [1.7]
    Quirk::ZeroDimReject,             // [1.5]
    Quirk::AddFailKeepsNode,          // [1.5]
    Quirk::InstantiateGarbageHandle,  // [3.7]
    Quirk::EndcaptureGarbageHandle,   // [5]
    Quirk::CaptureSyncInvalidatesAll, Quirk::CaptureDevsync900, Quirk::CaptureMalloc900, Quirk::CaptureLazyJoin,  // [5]
    Quirk::PoolThresholdIgnored, Quirk::PoolLowMemBlock, Quirk::PoolOversizeReuse,  // rs#11690 [4.1]
    Quirk::AutofreeDeviceWide, Quirk::AllocNodeOnce,                                // [4.2], [3.7]
};
// Until HIP 7.0 aligned error codes and capture rules with CUDA [5, 4.1].
const Group kBefore7 = {Quirk::LasterrorOverwrite, Quirk::FreeasyncNullError, Quirk::CaptureHolesLt7};
// Packets captured at instantiate (6.2 on); those inside a child graph are not rebuilt by an update [2.4].
const Group kStaleChildPackets = {Quirk::ChildUpdateStalePackets};
// From CLR-2410 (6.4) on: setters that forget the packet [2.6], the status of UpdateAQLPacket dropped (rs#10714) [2.1].
const Group kSince64 = {Quirk::GenericSetparamsStale, Quirk::UpdateSwallowError};
// The classic path over four streams, depth first: 6.4, and what later falls back to it [O2, O10, O3].
const Group kFourStreams = {Quirk::FanoutDrop, Quirk::DisabledDropsEdges, Quirk::ChildNoSync, Quirk::ParallelShuffle};
// 7.2 to 7.13: the segment scheduler before its repairs [O1, O6], children copied onto themselves [2.4], the crash of
// external waits in a capture [5].
const Group kSegments = {Quirk::MultirootNoLaunchWait, Quirk::DisabledListStale, Quirk::ChildUpdateSelfcopy,
                         Quirk::CaptureExternalWaitCrash};
// What older versions did, and what only a wrong program sees, as far as it leaves every rung of the ladder usable.
const Group kParanoid = {
    Quirk::UpdateNoDepCheck,       // 5.6 and 5.7 [2.1]
    Quirk::DestroyImmediate,       // up to 6.1 [3.5]
    Quirk::UpdateInflightVisible,  // stricter than any CLR
    Quirk::SlowCompletion, Quirk::PoolRetagRace, Quirk::PoolOomFault, Quirk::PoolsUnsupportedAttr,
    Quirk::PoisonOnFree, Quirk::ArgGuard,
};

}  // namespace

const std::vector<Profile> &profiles() {
  static const std::vector<Profile> all = {
      {"cuda", {}},
      {"clr-6.2", {&kEvery, &kBefore7, &kStaleChildPackets}},
      {"clr-6.4", {&kEvery, &kBefore7, &kStaleChildPackets, &kSince64, &kFourStreams}},
      {"clr-7.2", {&kEvery, &kSince64, &kFourStreams, &kSegments}},
      {"clr-7.13", {&kEvery, &kSince64, &kFourStreams, &kSegments}},
      {"clr-10", {&kEvery, &kStaleChildPackets, &kSince64}},
      {"paranoid", {&kEvery, &kBefore7, &kStaleChildPackets, &kSince64, &kFourStreams, &kSegments, &kParanoid}},
  };
  return all;
}

}  // namespace cpu
