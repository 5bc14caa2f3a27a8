#include "engine/faults.h"

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <mutex>

#include "engine/runner.h"

namespace cpu {

// The address at which a kernel last touched memory that is not there.
std::atomic<uint64_t> fault_address{0};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

void guard_thread() {}  // the sanitizer reports faults itself, so that there is nothing to do

#else

namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
constexpr size_t kSignalStack = 64 * 1024;
struct sigaction previous[4];

// A kernel thread that faulted goes on here, at the top of its own stack.
[[noreturn]] void on_fault(int signal, uintptr_t address) {
  char text[128];
  fault_address.store(address);
  Runner *runner = Runner::active();
  const bool overflow = address - runner->running()->base() < StackSlab::guard_size();
  std::snprintf(text, sizeof text, "memory access fault at address 0x%llx%s", static_cast<unsigned long long>(address),
                overflow ? ": a thread's private arrays do not fit its stack" : "");
  if (signal == SIGSEGV || signal == SIGBUS) runner->fail(hipErrorIllegalAddress, text);
  runner->fail(hipErrorLaunchFailure, signal == SIGFPE ? "integer division by zero" : "illegal instruction");
}

// Returns the kernel thread that was interrupted, or null if other code was.
Strand *interrupted(uintptr_t stack_pointer) {
  Runner *runner = Runner::active();
  Strand *strand = runner ? runner->running() : nullptr;
  if (!strand) return nullptr;
  return stack_pointer - strand->base() < HIPRT_CPU_STACK_SIZE ? strand : nullptr;
}

void redirect(ucontext_t *context, Strand *strand, int signal, uintptr_t address) {
  const uintptr_t top = reinterpret_cast<uintptr_t>(strand);
#if defined(__x86_64__)
  greg_t *r = context->uc_mcontext.gregs;
  r[REG_RSP] = greg_t(top - 8);
  r[REG_RIP] = greg_t(reinterpret_cast<uintptr_t>(&on_fault));
  r[REG_RDI] = signal;
  r[REG_RSI] = greg_t(address);
#else
  context->uc_mcontext.sp = top;
  context->uc_mcontext.pc = reinterpret_cast<uintptr_t>(&on_fault);
  context->uc_mcontext.regs[0] = uint64_t(signal);
  context->uc_mcontext.regs[1] = address;
#endif
}

uintptr_t stack_pointer_of(const ucontext_t *context) {
#if defined(__x86_64__)
  return uintptr_t(context->uc_mcontext.gregs[REG_RSP]);
#else
  return context->uc_mcontext.sp;
#endif
}

void pass_on(int signal, siginfo_t *info, void *context) {
  size_t i = 0;
  while (kSignals[i] != signal) ++i;
  const struct sigaction &old = previous[i];
  if (old.sa_flags & SA_SIGINFO) return old.sa_sigaction(signal, info, context);
  if (old.sa_handler != SIG_DFL && old.sa_handler != SIG_IGN) return old.sa_handler(signal);
  sigaction(signal, &old, nullptr);  // the instruction runs again and meets the default action
}

void on_signal(int signal, siginfo_t *info, void *p) {
  ucontext_t *context = static_cast<ucontext_t *>(p);
  Strand *strand = interrupted(stack_pointer_of(context));
  if (!strand) return pass_on(signal, info, p);
  redirect(context, strand, signal, reinterpret_cast<uintptr_t>(info->si_addr));
}

void install_handlers() {
  struct sigaction action = {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < 4; ++i) sigaction(kSignals[i], &action, &previous[i]);
}

// What a thread needs to survive faults. Its signals are unblocked, because a blocked fault ends the process, and the
// handler has a stack of its own, because the fault may be the overflow of another. The stack is given back when the
// thread ends.
struct Guard {
  Guard() {
    sigset_t faults;
    sigemptyset(&faults);
    for (const int signal : kSignals) sigaddset(&faults, signal);
    pthread_sigmask(SIG_UNBLOCK, &faults, nullptr);
    stack_t current;
    if (sigaltstack(nullptr, &current) == 0 && !(current.ss_flags & SS_DISABLE)) return;
    memory = mmap(nullptr, kSignalStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t own = {};
    own.ss_sp = memory, own.ss_size = kSignalStack;
    if (memory != MAP_FAILED) sigaltstack(&own, nullptr);
  }
  ~Guard() {
    if (!memory || memory == MAP_FAILED) return;
    stack_t off = {};
    off.ss_flags = SS_DISABLE;
    sigaltstack(&off, nullptr);
    munmap(memory, kSignalStack);
  }
  void *memory = nullptr;
};

}  // namespace

void guard_thread() {
  static std::once_flag once;
  std::call_once(once, install_handlers);
  static thread_local Guard guard;
  (void)guard;
}

#endif

}  // namespace cpu

// hiprt.allocator asks for the address, because it knows what lay there.
extern "C" __attribute__((visibility("default"))) uint64_t hiprt_cpu_fault_address() {
  return cpu::fault_address.load();
}
