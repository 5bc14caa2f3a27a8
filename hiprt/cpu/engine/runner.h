// One core's execution of blocks. Kernels that do not synchronise run in a plain loop over their threads; in others
// every thread that waits is a fiber.
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

// One execution of a kernel. All cores that take part share it.
struct Launch {
  const Kernel *kernel;
  const KernelCode *code;
  const unsigned char *arguments;
  dim3 grid, block;
  uint64_t blocks;
  bool is_cooperative;  // all blocks are there at once, on one core: they may wait for each other at the grid's barrier
  uint64_t chunk = 1;   // how many blocks a core takes at a time
  alignas(64) std::atomic<uint64_t> next{0};
  std::atomic<bool> failed{false};
  hipError_t error = hipSuccess;

  // Takes a portion of the blocks that nobody has taken. Returns false if there is none.
  bool take(uint64_t *begin, uint64_t *end);

  // Notes a failure and writes the text to standard error. Only the first failure counts, because later ones are often
  // its consequences.
  void fail(hipError_t status, const std::string &text);
};

class Runner;

// The __shared__ memory of the block that a core executes.
struct alignas(4096) SharedMemory {
  unsigned char bytes[2 * HIPRT_CPU_SHARED];
};

struct Warp;

// A fiber that executes kernel threads, one after the other. The structure lies at the top of its own stack, below the
// index record of the thread it executes, so that a switch touches neighbouring cache lines.
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

// The lanes of a warp. Each lane is in one of the four sets, is running, or has ended.
struct Warp {
  uint32_t fresh, ready, waiting, parked;  // not begun; able to go on; at a warp operation; at the barrier
  unsigned first;                          // number in the block of lane 0
  Strand *strand[HIPRT_CPU_WARP];
  uint64_t value[HIPRT_CPU_WARP];
  __hiprt_step at[HIPRT_CPU_WARP];         // the operation that a lane waits at, as the last step of its way
  uint32_t source[HIPRT_CPU_WARP], mask[HIPRT_CPU_WARP];
  __hiprt_warp_op op[HIPRT_CPU_WARP];
  uintptr_t caller[HIPRT_CPU_WARP];        // where in the program a lane waits, while anything is checked
};

// A block that is being executed.
struct Block {
  Block();

  unsigned index[3] = {};
  std::unique_ptr<SharedMemory> shared;
  std::vector<Warp> warps;
  unsigned warp_count = 0, current = 0;
  unsigned alive = 0, parked = 0;  // threads that have not ended; those of them at a barrier
  unsigned at_grid = 0;            // those of them at the grid's barrier
  unsigned clock_reads = 0;        // since another block had its turn
  unsigned votes = 0;              // threads at the barrier whose predicate held
  unsigned result_votes = 0, result_threads = 0;  // the result of the barrier that was passed last
};

class Runner {
 public:
  // `core` is its number among those that execute a launch.
  explicit Runner(unsigned core) : core_(core) {}

  // Executes blocks begin..end of the launch; it stops early if the launch has failed.
  void run(Launch *launch, uint64_t begin, uint64_t end);
  // Makes stacks for more threads of kernels. Returns false if there is no address space left.
  bool add_strands();

  // Kernels call these through callbacks.h, on the strand of the calling thread.
  // Kernels that are checked say where they wait.
  void called_from(const Strand *self, const void *caller) {
    self->warp->caller[self->lane] = reinterpret_cast<uintptr_t>(caller);
  }
  unsigned barrier(Strand *self, __hiprt_barrier kind, unsigned predicate);
  uint64_t warp_op(Strand *self, unsigned key, __hiprt_warp_op op, uint64_t value, unsigned source, unsigned mask);
  // An access to a thread's own stack is not looked at.
  void access(uintptr_t address, size_t size, unsigned kind, uintptr_t caller);
  void fence(bool of_device);
  // Lets the other threads of the block go on before the running one does.
  void yield();
  // Does the same for a thread that reads the clock, for which it may wait: once all threads of its block have read it,
  // other blocks have their turn too.
  void read_clock();
  [[noreturn]] void fail(hipError_t status, const std::string &text);

  // Returns the runner that executes a kernel on this operating-system thread at the moment, or null.
  static Runner *active();
  Strand *running() const { return running_; }
  const Launch &launch() const { return *launch_; }

 private:
  static void strand_main(void *strand);
  void plain_blocks(__hiprt_thread *record);
  void fill(__hiprt_thread *record) const;
  void begin_block(uint64_t index);
  bool change_block();
  void set_block(uint64_t index);
  Strand *take_strand();
  Strand *start(Strand *idle, Warp *warp, unsigned lane);
  Strand *next_fresh(Warp *warp, Strand *idle = nullptr);
  Strand *go_on(Warp *warp);
  Strand *next(Strand *idle);
  Strand *next_warp(Strand *idle);
  Strand *next_block(Strand *idle);
  void pass_grid();
  void enter(Strand *first);
  bool resolve(Warp *warp);
  bool resolve(Warp *warp, bool by_any_way);
  void release();
  void let_go();
  void check_release() const;
  void check_members(const Warp &warp, uint32_t members) const;
  void finish(Strand *self);
  [[noreturn]] void give_up();
  void go(Strand *from, Fiber *to, bool keep = true);
  std::string deadlock_text() const;

  const unsigned core_;
  Launch *launch_ = nullptr;
  uint64_t begin_ = 0, end_ = 0;
  Block block_;
  std::vector<Block> others_;  // those that have begun, of cooperative launches and of blocks that wait for the clock
  size_t turn_ = 0;            // whose of them is next
  Fiber home_;
  Strand *running_ = nullptr;
  std::vector<std::unique_ptr<StackSlab>> slabs_;
  std::vector<Strand *> strands_;
  std::vector<Strand *> idle_;
  bool is_starved_ = false;  // the last thread that was to begin got no stack
};

}  // namespace cpu
