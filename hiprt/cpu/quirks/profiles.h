// Profiles: the quirks that one version of ROCm's runtime has, chosen by name (HIPRT_CPU_PROFILE).
#pragma once

#include <vector>

#include "quirks/quirks.h"

namespace cpu {

struct Profile {
  const char *name;
  std::vector<const std::vector<Quirk> *> groups;
};

const std::vector<Profile> &profiles();

}  // namespace cpu
