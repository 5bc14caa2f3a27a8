#include "quirks/quirks.h"

#include <cstdio>
#include <cstdlib>

#include "random.h"

namespace cpu {

bool quirk_table[kQuirks] = {};
QuirkNumbers quirk_numbers;

const char *const quirk_names[kQuirks] = {
#define HIPRT_CPU_NAME(enumerator, name) #name,
    HIPRT_CPU_QUIRKS(HIPRT_CPU_NAME)
#undef HIPRT_CPU_NAME
};

bool by_chance() {
  constexpr uint32_t kAll = 1u << 24;
  return random_below(kAll) < quirk_numbers.probability * kAll;
}

void crash(Quirk q, const char *what) {
  std::fprintf(stderr, "hiprt cpu device: %s: %s\n", quirk_names[static_cast<size_t>(q)], what);
  std::fflush(stderr);
  std::abort();
}

}  // namespace cpu
