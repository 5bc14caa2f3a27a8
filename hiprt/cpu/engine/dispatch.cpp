#include "engine/dispatch.h"

#include <algorithm>
#include <chrono>

#include "check/checks.h"
#include "check/kernel_check.h"
#include "engine/callbacks.h"
#include "engine/faults.h"
#include "engine/workers.h"

namespace cpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kInlineNs = 6000;   // less work than this is not shared
constexpr double kWakeNs = 40000;    // less work than this wakes no sleeping thread
constexpr double kChunkNs = 1500;    // a portion is at least this long

// Guesses the time of one block, for a kernel of which none was measured.
double guess_ns(const KernelCode &code, unsigned threads) { return threads * (code.synchronises ? 60.0 : 2.0) + 20; }

uint64_t chunk_of(uint64_t blocks, double block_ns, unsigned cores) {
  const double smallest = kChunkNs / block_ns;
  const uint64_t portion = std::max<uint64_t>(1, blocks / (uint64_t{cores} * 8));
  return smallest > double(blocks) ? blocks : std::max(portion, uint64_t(smallest));
}

void note_time(const KernelCode &code, double block_ns) {
  const float old = code.block_ns.load(std::memory_order_relaxed);
  code.block_ns.store(old ? old * 0.75f + float(block_ns) * 0.25f : float(block_ns), std::memory_order_relaxed);
}

// Tells the checks of a launch, for as long as it lives.
struct CheckedLaunch {
  CheckedLaunch(const Launch &launch, uint32_t dynamic_shared, bool is_shared) : code(launch.code) {
    if (!is_checking()) return;
    const dim3 &grid = launch.grid, &block = launch.block;
    begin_kernel({launch.kernel->name,
                  {grid.x, grid.y, grid.z},
                  {block.x, block.y, block.z},
                  launch.arguments,
                  launch.kernel->kernarg_size,
                  launch.kernel->module->code,
                  &launch.kernel->shared_pieces,
                  dynamic_shared,
                  is_shared});
  }
  ~CheckedLaunch() {
    if (!is_checking()) return;
    if (end_kernel()) code->blocks = BlockRelation::Talking;
    else if (code->blocks == BlockRelation::Unknown) code->blocks = BlockRelation::Apart;
  }
  CheckedLaunch(const CheckedLaunch &) = delete;
  const KernelCode *code;
};

// The blocks of a checked kernel run side by side if they cannot tell each other anything, or did not when it ran before: what a
// core knows of the order of threads is that of its own blocks. Of accesses that only a look for races notes, nothing would be held against those
// of other cores.
bool may_be_shared(const KernelCode &code) {
  return !is_checking() || (checks(CheckKind::Race) && code.blocks == BlockRelation::Apart);
}

}  // namespace

hipError_t run_kernel(const Kernel &kernel, dim3 grid, dim3 block, uint32_t dynamic_shared, const void *kernarg,
                      bool is_cooperative) {
  const uint64_t blocks = uint64_t{grid.x} * grid.y * grid.z, threads = uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > kernel.max_threads || uint64_t{dynamic_shared} > HIPRT_CPU_SHARED)
    return hipErrorInvalidValue;
  guard_thread();
  const KernelCode &code = *kernel.code;
  Launch launch{&kernel, &code, static_cast<const unsigned char *>(kernarg), grid, block, blocks, is_cooperative};
  Workers &workers = Workers::get();
  const float measured = code.block_ns.load(std::memory_order_relaxed);
  const double block_ns = measured ? measured : guess_ns(code, unsigned(threads)), total = block_ns * double(blocks);
  const bool is_alone = is_cooperative || !may_be_shared(code) || total < kInlineNs;
  const unsigned cores = is_alone ? 1 : unsigned(std::min<uint64_t>(blocks, workers.cores()));
  const CheckedLaunch checked(launch, dynamic_shared, cores > 1);
  const auto begin = Clock::now();
  workers.run(&launch, cores == 1 ? blocks : chunk_of(blocks, block_ns, cores), total > kWakeNs);
  const double spent = double((Clock::now() - begin) / std::chrono::nanoseconds(1));
  if (blocks) note_time(code, spent * cores / double(blocks));
  flush_prints();
  return launch.error;
}

}  // namespace cpu
