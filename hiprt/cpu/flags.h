// The environment variables of the CPU device, read once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace cpu {

constexpr int kMaxDevices = 16;

struct Flags {
  uint32_t seed;           // HIPRT_CPU_SEED: order of independent work
  unsigned threads;        // HIPRT_CPU_THREADS: cores that execute a kernel
  int devices;             // HIPRT_CPU_DEVICES: how many devices to show
  size_t memory_bytes;     // HIPRT_CPU_MEMORY_MB: memory of each device
  std::string cache_dir;   // HIPRT_CACHE_DIR: where compiled kernels are kept; never empty unless no home is known
  size_t cache_bytes;      // HIPRT_CACHE_MAX_MB: most that is kept there, 0: no bound
  std::string compiler;    // HIPRT_CPU_COMPILER: C++ compiler for hiprtc, empty: search
  std::string zig;         // HIPRT_CPU_ZIG: the zig binary of the PyPI package ziglang, empty: look beside this library
};

const Flags &flags();

// The defects to imitate, as text; read while the library is loaded, before anything else of it runs.
std::string quirks_flag();   // HIPRT_CPU_QUIRKS
std::string profile_flag();  // HIPRT_CPU_PROFILE

}  // namespace cpu
