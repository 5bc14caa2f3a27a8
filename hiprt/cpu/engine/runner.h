// One core's execution of blocks: a plain loop for kernels that do not synchronise, else a fiber for each thread that waits.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/fiber.h"
#include "engine/kernel.h"
#include "hip/hip_runtime_api.h"
#include "include/cpu_abi.h"

namespace cpu {

// One execution of a kernel, shared by all cores that take part.
struct Launch {
  const Kernel *kernel;
  const KernelCode *code;
  const unsigned char *arguments;
  dim3 grid, block;
  uint64_t blocks;
  std::atomic<bool> failed{false};
  hipError_t error = hipSuccess;

  // The first failure counts: later ones are often its consequences. The text goes to standard error.
  void fail(hipError_t status, const std::string &text);
};

class Runner;

// The shared memory of the block that a core executes.
struct alignas(256) SharedMemory {
  unsigned char bytes[2 * HIPRT_CPU_SHARED];
};

struct Warp;

// A stack that executes kernel threads, one after the other. It lies at the top of that stack, below the index record of the
// thread it executes: what a switch touches is close together.
struct alignas(64) Strand : Fiber {
  Runner *runner;
  Warp *warp;
  unsigned lane;
  bool usable;  // false: its stack holds an abandoned thread

  static Strand *on_stack(const char *base) { return of(__hiprt_thread_at(reinterpret_cast<uintptr_t>(base))); }
  static Strand *of(__hiprt_thread *record) { return reinterpret_cast<Strand *>(record) - 1; }
  __hiprt_thread *record() { return reinterpret_cast<__hiprt_thread *>(this + 1); }
  const __hiprt_step *step() {
    const unsigned offset = record()->step;
    return offset ? reinterpret_cast<const __hiprt_step *>(base() + offset) : nullptr;
  }
  uintptr_t base() const { return reinterpret_cast<uintptr_t>(this) & ~(HIPRT_CPU_STACK_SIZE - 1); }
};
static_assert(sizeof(Strand) == 64 && sizeof(__hiprt_thread) == 64, "one cache line each");

// The lanes of a warp, each in one of the sets (or running, or gone).
struct Warp {
  uint32_t fresh, ready, waiting, parked;  // not begun; can go on; at a warp operation; at the block's barrier
  unsigned first;                          // thread of lane 0
  Strand *strand[HIPRT_CPU_WARP];
  uint64_t value[HIPRT_CPU_WARP];
  __hiprt_step at[HIPRT_CPU_WARP];         // the operation, as the last step of a lane's way
  uint32_t source[HIPRT_CPU_WARP], mask[HIPRT_CPU_WARP];
  __hiprt_warp_op op[HIPRT_CPU_WARP];
};

class Runner {
 public:
  Runner();
  // Execute blocks begin..end of the launch; stops early if the launch has failed.
  void run(Launch *launch, uint64_t begin, uint64_t end);

  // What kernels call, on the strand of the calling thread.
  unsigned barrier(Strand *self, __hiprt_barrier kind, unsigned predicate);
  uint64_t warp_op(Strand *self, unsigned key, __hiprt_warp_op op, uint64_t value, unsigned source, unsigned mask);
  [[noreturn]] void fail(hipError_t status, const std::string &text);

  // The runner that executes a kernel on this operating-system thread right now, or null.
  static Runner *active();
  Strand *running() const { return running_; }
  const Launch &launch() const { return *launch_; }

 private:
  static void strand_main(void *strand);
  void plain_blocks(__hiprt_thread *record);
  void fill(__hiprt_thread *record) const;
  void begin_block(uint64_t index);
  void set_block(uint64_t index);
  Strand *take_strand();
  Strand *start(Strand *idle, Warp *warp, unsigned lane);
  Strand *go_on(Warp *warp);
  Strand *next(Strand *idle);
  Strand *next_warp(Strand *idle);
  bool resolve(Warp *warp);
  bool resolve(Warp *warp, bool by_any_way);
  void release();
  void finish(Strand *self);
  void go(Strand *from, Fiber *to, bool keep = true);
  std::string deadlock_text() const;

  Launch *launch_ = nullptr;
  uint64_t begin_ = 0, end_ = 0;
  unsigned block_[3] = {};
  Fiber home_;
  Strand *running_ = nullptr;
  std::vector<std::unique_ptr<StackSlab>> slabs_;
  std::vector<Strand *> strands_;
  std::unique_ptr<SharedMemory> shared_;
  std::vector<Strand *> idle_;
  std::vector<Warp> warps_;
  unsigned warp_count_ = 0, current_ = 0;
  unsigned alive_ = 0, parked_ = 0;      // threads not gone; those at the barrier
  unsigned votes_ = 0;                   // predicates that held at the barrier being filled
  unsigned result_votes_ = 0, result_threads_ = 0;  // of the barrier last passed
};

}  // namespace cpu
