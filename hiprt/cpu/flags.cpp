#include "flags.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "code_cache.h"

namespace cpu {
namespace {

std::string text(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

// Returns the variable's whole number, or the fallback if it is unset. A value that is no whole number is reported and
// ignored.
size_t number(const char *name, size_t fallback) {
  const std::string value = text(name);
  char *end = nullptr;
  const unsigned long long parsed = std::strtoull(value.c_str(), &end, 10);
  if (!value.empty() && *end == '\0' && value[0] != '-') return static_cast<size_t>(parsed);
  if (!value.empty())
    std::fprintf(stderr, "hiprt cpu device: %s: '%s' is no whole number and ignored\n", name, value.c_str());
  return fallback;
}

// Does the same for a variable whose 0 asks for the fallback.
size_t size(const char *name, size_t fallback) {
  const size_t value = number(name, fallback);
  return value ? value : fallback;
}

// Returns how many cores this process may use: under taskset or in a container these are fewer than the machine's.
unsigned usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return static_cast<unsigned>(CPU_COUNT(&set));
  return static_cast<unsigned>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

size_t physical_mb() {
  const size_t pages = static_cast<size_t>(sysconf(_SC_PHYS_PAGES));
  return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE)) >> 20;
}

std::string default_cache_dir() {
  char *folder = hiprt_cache_default_folder();
  const std::string text = folder ? folder : "";
  hiprt_cache_free(folder);
  return text;
}

// Returns the kinds that a list names, as a sum. A name that is none is reported and ignored.
unsigned check_kinds(const std::string &list) {
  constexpr std::pair<const char *, unsigned> kNames[] = {
      {"memory", 1}, {"race", 2}, {"init", 4}, {"barrier", 8}, {"all", 15}};
  unsigned kinds = 0;
  for (size_t start = 0; start < list.size();) {
    const size_t end = std::min(list.find(',', start), list.size());
    const std::string name = list.substr(start, end - start);
    start = end + 1;
    const auto known = std::find_if(std::begin(kNames), std::end(kNames), [&](const auto &n) { return n.first == name; });
    if (known != std::end(kNames)) kinds |= known->second;
    else std::fprintf(stderr, "hiprt cpu device: HIPRT_CPU_CHECK: '%s' is none of memory, race, init, barrier and all\n", name.c_str());
  }
  return kinds;
}

Flags read_flags() {
  Flags f;
  f.seed = static_cast<uint32_t>(number("HIPRT_CPU_SEED", 0));
  f.threads = static_cast<unsigned>(std::clamp<size_t>(size("HIPRT_CPU_THREADS", usable_cores()), 1, 1024));
  f.devices = static_cast<int>(std::clamp<size_t>(number("HIPRT_CPU_DEVICES", 1), 0, kMaxDevices));
  f.memory_bytes = size("HIPRT_CPU_MEMORY_MB", physical_mb()) << 20;
  f.cache_dir = text("HIPRT_CACHE_DIR");
  if (f.cache_dir.empty()) f.cache_dir = default_cache_dir();
  f.cache_bytes = number("HIPRT_CACHE_MAX_MB", HIPRT_CACHE_DEFAULT_MB) << 20;
  f.compiler = text("HIPRT_CPU_COMPILER");
  f.zig = text("HIPRT_CPU_ZIG");
  f.checks = check_kinds(text("HIPRT_CPU_CHECK"));
  f.check_report = text("HIPRT_CPU_CHECK_REPORT");
  f.check_suppress = text("HIPRT_CPU_CHECK_SUPPRESS");
  return f;
}

}  // namespace

const Flags &flags() {
  // It is never destroyed, because the device thread may still read it while the process exits.
  static const Flags &value = *new Flags(read_flags());
  return value;
}

std::string quirks_flag() { return text("HIPRT_CPU_QUIRKS"); }
std::string profile_flag() { return text("HIPRT_CPU_PROFILE"); }

}  // namespace cpu
