// The environment variables of the CPU device. They are read once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace cpu {

constexpr int kMaxDevices = 16;

// The kinds of defects that kernels can be checked for.
enum class CheckKind : unsigned { Memory = 1, Race = 2, Init = 4, Barrier = 8 };

struct Flags {
  uint32_t seed;           // HIPRT_CPU_SEED: chooses the order of independent work
  unsigned threads;        // HIPRT_CPU_THREADS: how many cores execute a kernel
  int devices;             // HIPRT_CPU_DEVICES: how many devices to show
  size_t memory_bytes;     // HIPRT_CPU_MEMORY_MB: the memory of each device
  std::string cache_dir;   // HIPRT_CACHE_DIR: where compiled kernels are kept; empty only if the user has no home
  size_t cache_bytes;      // HIPRT_CACHE_MAX_MB: the most that is kept there; 0 means no bound
  std::string compiler;    // HIPRT_CPU_COMPILER: the C++ compiler for hiprtc; empty means that one is searched for
  std::string zig;         // HIPRT_CPU_ZIG: the zig binary of the PyPI package ziglang; empty: the one beside ours
  unsigned checks;             // HIPRT_CPU_CHECK: the kinds to look for, as a sum
  std::string check_report;    // HIPRT_CPU_CHECK_REPORT: a file that gets a JSON line for each defect
  std::string check_suppress;  // HIPRT_CPU_CHECK_SUPPRESS: a file of defects that are not told of
};

const Flags &flags();

// The quirks and the profile that are asked for, as text. They are read while the library is loaded, before any other
// code of it runs.
std::string quirks_flag();   // HIPRT_CPU_QUIRKS
std::string profile_flag();  // HIPRT_CPU_PROFILE

}  // namespace cpu
