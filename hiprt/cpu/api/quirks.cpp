// What is asked about quirks and profiles. The functions are not HIP's.
#include "quirks/profiles.h"
#include "quirks/quirks.h"

#include <algorithm>
#include <cstring>
#include <iterator>

using namespace cpu;

#define PUBLIC extern "C" __attribute__((visibility("default")))

// Whether a quirk is on; -1 for a name that is none.
PUBLIC int hiprtCpuQuirk(const char *name) {
  const auto is_it = [&](const char *known) { return std::strcmp(known, name) == 0; };
  const auto found = std::find_if(std::begin(quirk_names), std::end(quirk_names), is_it);
  return found == std::end(quirk_names) ? -1 : quirk_table[found - std::begin(quirk_names)];
}

// The name of a quirk, counted from 0; null behind the last.
PUBLIC const char *hiprtCpuQuirkName(size_t index) { return index < kQuirks ? quirk_names[index] : nullptr; }

// The name of a profile, counted from 0; null behind the last.
PUBLIC const char *hiprtCpuProfileName(size_t index) {
  return index < profiles().size() ? profiles()[index].name : nullptr;
}

// Whether a profile switches a quirk on, each counted from 0.
PUBLIC int hiprtCpuProfileHas(size_t profile, size_t quirk) {
  if (profile >= profiles().size()) return 0;
  const auto holds = [&](const auto *group) {
    return std::find(group->begin(), group->end(), static_cast<Quirk>(quirk)) != group->end();
  };
  const auto &groups = profiles()[profile].groups;
  return std::any_of(groups.begin(), groups.end(), holds);
}
