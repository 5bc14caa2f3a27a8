#include "quirks/profiles.h"

namespace cpu {
namespace {

using Group = std::vector<Quirk>;

// The comments name the versions of HIP that have a quirk, where they are not those of the whole group. No profile
// holds a quirk whose effect nobody has observed (update_no_flush), or one that makes a whole rung of hiprt's ladder
// unusable.

// These are in CLR's sources from 6.2 to 10.0.
const Group kEvery = {
    Quirk::GetparamsAlias,            // from 5.6 on
    Quirk::GetparamsExtra, Quirk::GetparamsFlatCopy,
    Quirk::SetparamsValidateOldFunc,
    Quirk::UpdateBfsCountOnly,        // pairs have the same breadth-first position and number of dependencies
    Quirk::UpdatePartial,             // an update changes node after node and undoes nothing
    Quirk::MemcpyFlavourUb,           // a static_cast leads from one class of copies to another
    Quirk::KernargBumpLeak,           // each update takes a new slot, which is freed with the executable graph
    Quirk::NodeHandleReuse,           // handles are addresses
    Quirk::ExecOverlap,               // nothing orders launches on different streams
    Quirk::HostParamsLive,            // host nodes hold a pointer to their parameters
    Quirk::DeviceBinding,             // the thread's current device decides which functions exist
    Quirk::ZeroDimReject, Quirk::FillShapeReject,
    Quirk::AddFailKeepsNode,
    Quirk::InstantiateGarbageHandle,
    Quirk::EndcaptureGarbageHandle,
    Quirk::CaptureSyncInvalidatesAll, Quirk::CaptureDevsync900, Quirk::CaptureMalloc900,
    Quirk::WaitForCapturedStream, Quirk::EventOfGoneStream,
    Quirk::PoolThresholdIgnored, Quirk::PoolLowMemBlock, Quirk::PoolOversizeReuse,  // rocm-systems#11690
    Quirk::FreeTakesHostMemory, Quirk::AutofreeDeviceWide, Quirk::AllocNodeOnce,
};
// HIP 7.0 aligned error codes and capture rules with CUDA; these are older.
const Group kBefore7 = {
    Quirk::LasterrorOverwrite, Quirk::DestroyedHandle709, Quirk::FreeasyncNullError, Quirk::CaptureHolesLt7,
    Quirk::ParamInfoMissing,  // it came with 7.2
    Quirk::EventOfCapturedStream,  // 7.2's library asks whether the capture has recorded the event
    Quirk::ChildOfItself, Quirk::RegisterTwice,  // read in the source between 6.3 and 6.4
    Quirk::CodesLt7,
    Quirk::IpcEventNeverWaits,  // 6.2 to 6.4; the 7.13 era has it repaired, 7.2 was not read
};
// From 6.2 on packets are built at instantiation, and an update does not build those inside a child graph again.
const Group kStaleChildPackets = {Quirk::ChildUpdateStalePackets};
// From 6.4 on setters forget the packet, and the status of UpdateAQLPacket is dropped (rocm-systems#10714).
const Group kSince64 = {Quirk::GenericSetparamsStale, Quirk::UpdateSwallowError};
// 6.4 runs a graph over four streams, depth first; later versions fall back to that path.
const Group kFourStreams = {Quirk::FanoutDrop, Quirk::ChildNoSync, Quirk::ParallelShuffle};
// 7.2 to 7.13 have the segment scheduler before its repairs, copy child graphs onto themselves, make no commands of
// disabled nodes, and crash at an external wait in a capture.
const Group kSegments = {Quirk::MultirootNoLaunchWait, Quirk::DisabledListStale, Quirk::ChildUpdateSelfcopy,
                         Quirk::DisabledDropsEdges, Quirk::CaptureExternalWaitCrash};
// What older versions did, and what only a wrong program meets.
const Group kParanoid = {
    Quirk::UpdateNoDepCheck,       // 5.6 and 5.7
    Quirk::DestroyImmediate,       // up to 6.1
    Quirk::UpdateInflightVisible,  // stricter than any CLR
    Quirk::CaptureLazyJoin,        // one port reports it of 7.x; every CLR that was read joins at EndCapture
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
