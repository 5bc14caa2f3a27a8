#include "quirks/quirks.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "flags.h"
#include "runtime/stream.h"

namespace cpu {

bool quirk_table[kQuirks] = {};
QuirkNumbers quirk_numbers;

namespace {

constexpr const char *kNames[] = {
#define HIPRT_CPU_NAME(enumerator, name) #name,
    HIPRT_CPU_QUIRKS(HIPRT_CPU_NAME)
#undef HIPRT_CPU_NAME
};

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

struct Profile {
  const char *name;
  std::vector<const Group *> groups;
};

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

// Letters to change, insert or remove between two names.
size_t distance(const std::string &a, const std::string &b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
    }
  }
  return row.back();
}

void refuse(const char *variable, const std::string &name, const std::vector<std::string> &known) {
  const auto nearer = [&](const std::string &a, const std::string &b) { return distance(name, a) < distance(name, b); };
  const std::string &nearest = *std::min_element(known.begin(), known.end(), nearer);
  std::fprintf(stderr, "hiprt cpu device: %s: '%s' is not known and ignored; did you mean '%s'?\n", variable,
               name.c_str(), nearest.c_str());
}

bool set_number(const std::string &name, const char *value) {
  if (name == "kernarg_limit") quirk_numbers.kernarg_limit = std::strtoull(value, nullptr, 10);
  else if (name == "Q") quirk_numbers.queues = std::max(1u, static_cast<uint32_t>(std::strtoul(value, nullptr, 10)));
  else if (name == "probability") quirk_numbers.probability = std::strtod(value, nullptr);
  else return false;
  return true;
}

// One item of HIPRT_CPU_QUIRKS: a name, or name=value.
void read_item(const std::string &item) {
  const size_t equals = item.find('=');
  const std::string name = item.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : item.substr(equals + 1);
  if (!value.empty() && set_number(name, value.c_str())) return;
  const auto found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found != std::end(kNames)) {
    // The layout of the headers is what the device has anyway.
    quirk_table[found - std::begin(kNames)] = !(name == "memset_layout" && value == "header");
    return;
  }
  std::vector<std::string> known(std::begin(kNames), std::end(kNames));
  known.insert(known.end(), {"kernarg_limit", "Q", "probability"});
  refuse("HIPRT_CPU_QUIRKS", name, known);
}

void read_profile(const std::string &name) {
  std::vector<std::string> known;
  for (const Profile &profile : profiles()) {
    known.emplace_back(profile.name);
    if (name != profile.name) continue;
    for (const Group *group : profile.groups) {
      for (const Quirk q : *group) quirk_table[static_cast<size_t>(q)] = true;
    }
    return;
  }
  refuse("HIPRT_CPU_PROFILE", name, known);
}

bool read() {
  const std::string profile = profile_flag();
  if (!profile.empty()) read_profile(profile);
  std::string items = quirks_flag();
  items.erase(std::remove(items.begin(), items.end(), ' '), items.end());
  for (size_t start = 0; start < items.size();) {
    const size_t end = std::min(items.find(',', start), items.size());
    if (end > start) read_item(items.substr(start, end - start));
    start = end + 1;
  }
  return true;
}

[[maybe_unused]] const bool is_read = read();

}  // namespace

bool by_chance() {
  constexpr uint32_t kAll = 1u << 24;
  return shuffle_next(kAll) < quirk_numbers.probability * kAll;
}

// Not of HIP: whether a defect is imitated, -1 for a name that is none.
extern "C" __attribute__((visibility("default"))) int hiprtCpuQuirk(const char *name) {
  const auto found = std::find_if(std::begin(kNames), std::end(kNames), [&](const char *n) { return !strcmp(n, name); });
  return found == std::end(kNames) ? -1 : quirk_table[found - std::begin(kNames)];
}

void crash(Quirk q, const char *what) {
  std::fprintf(stderr, "hiprt cpu device: %s: %s\n", kNames[static_cast<size_t>(q)], what);
  std::fflush(stderr);
  std::abort();
}

}  // namespace cpu
