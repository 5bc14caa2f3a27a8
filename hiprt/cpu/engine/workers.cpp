#include "engine/workers.h"

#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>

#include "engine/faults.h"
#include "flags.h"

namespace cpu {
namespace {

// How long a worker looks for the next launch before it sleeps. It is longer than the gap between two nodes of a graph.
constexpr std::chrono::microseconds kSpin{60};
constexpr size_t kRoom = size_t{512} << 20;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  __asm__ volatile("yield");
#endif
}

long futex(std::atomic<uint32_t> *word, int operation, uint32_t value) {
  return syscall(SYS_futex, reinterpret_cast<uint32_t *>(word), operation | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
}

}  // namespace

Workers &Workers::get() {
  static Workers &workers = *new Workers;  // never destroyed, because its threads outlive main
  return workers;
}

Workers::Workers() {
  for (unsigned i = 0; i < flags().threads; ++i) runners_.push_back(std::make_unique<Runner>(i));
  // Signals belong to the application's own threads. guard_thread() unblocks those that faults of kernels raise.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  // Where threads are many and address space is not, the stacks of threads leave this much for those of kernels.
  void *const room = mmap(nullptr, kRoom, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  unsigned made = 1;
  try {
    for (; made < runners_.size() && runners_[made]->add_strands(); ++made)
      std::thread(&Workers::worker_main, this, runners_[made].get()).detach();
  } catch (const std::system_error &) {
    // The process may have no more threads: those that there are do the work.
  }
  runners_.resize(made);
  if (room != MAP_FAILED) munmap(room, kRoom);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Workers::run(Launch *launch, uint64_t chunk, bool wake) {
  const std::lock_guard<std::mutex> hold(lock_);
  launch_ = launch;
  launch->chunk = runners_.size() == 1 ? launch->blocks : chunk;
  if (launch->blocks <= launch->chunk) return take_blocks(runners_[0].get());
  open_.store(true, std::memory_order_seq_cst);
  epoch_.fetch_add(1, std::memory_order_seq_cst);
  if (wake && sleepers_.load(std::memory_order_seq_cst)) futex(&epoch_, FUTEX_WAKE, uint32_t(runners_.size() - 1));
  take_blocks(runners_[0].get());
  open_.store(false, std::memory_order_seq_cst);
  for (unsigned turn = 1; inside_.load(std::memory_order_seq_cst); ++turn) turn % 256 ? relax() : (void)sched_yield();
}

void Workers::take_blocks(Runner *runner) {
  for (uint64_t begin = 0, end = 0; launch_->take(&begin, &end);) runner->run(launch_, begin, end);
}

void Workers::worker_main(Runner *runner) {
  guard_thread();
  for (uint32_t seen = 0;;) {
    seen = wait_for_work(seen);
    inside_.fetch_add(1, std::memory_order_seq_cst);
    if (open_.load(std::memory_order_seq_cst)) take_blocks(runner);
    inside_.fetch_sub(1, std::memory_order_seq_cst);
  }
}

// Waits for an epoch other than `seen` and returns it. It spins at first, because waking up costs more than most
// kernels.
uint32_t Workers::wait_for_work(uint32_t seen) {
  const auto begin = std::chrono::steady_clock::now();
  for (unsigned turn = 1;; ++turn) {
    const uint32_t now = epoch_.load(std::memory_order_acquire);
    if (now != seen) return now;
    relax();
    if (turn % 64 != 0) continue;
    if (std::chrono::steady_clock::now() - begin < kSpin) {
      sched_yield();  // the threads that submit work may need this core
      continue;
    }
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    while (epoch_.load(std::memory_order_seq_cst) == seen) futex(&epoch_, FUTEX_WAIT, seen);
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  }
}

}  // namespace cpu
