// What tests ask about quirks. The function is not HIP's.
#include "quirks/quirks.h"

#include <algorithm>
#include <cstring>
#include <iterator>

using namespace cpu;

// Whether a quirk is on; -1 for a name that is none.
extern "C" __attribute__((visibility("default"))) int hiprtCpuQuirk(const char *name) {
  const auto is_it = [&](const char *known) { return std::strcmp(known, name) == 0; };
  const auto found = std::find_if(std::begin(quirk_names), std::end(quirk_names), is_it);
  return found == std::end(quirk_names) ? -1 : quirk_table[found - std::begin(quirk_names)];
}
