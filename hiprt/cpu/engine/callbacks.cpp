#include "engine/callbacks.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "check/checks.h"
#include "check/cores.h"
#include "check/kernel_check.h"
#include "check/shadow.h"
#include "check/streaks.h"
#include "engine/runner.h"

namespace cpu {
namespace {

std::atomic<bool> printed{false};

unsigned barrier(__hiprt_thread *record, __hiprt_barrier kind, unsigned predicate) {
  Strand *self = Strand::of(record);
  if (is_checking()) self->runner->called_from(self, __builtin_return_address(0));
  return self->runner->barrier(self, kind, predicate);
}

unsigned long long warp(__hiprt_thread *record, unsigned key, __hiprt_warp_op op, unsigned long long value, unsigned lane,
                        unsigned mask) {
  Strand *self = Strand::of(record);
  if (is_checking()) self->runner->called_from(self, __builtin_return_address(0));
  return self->runner->warp_op(self, key, op, value, lane, mask);
}

void access(const volatile void *address, unsigned long size, unsigned kind, const void *caller) {
  const auto place = reinterpret_cast<uintptr_t>(address);
  if (place - reinterpret_cast<uintptr_t>(&host_callbacks()) < sizeof(__hiprt_host)) return;
  Runner::active()->access(place, size, kind, reinterpret_cast<uintptr_t>(caller));
}

void fence(int of_device) { Runner::active()->fence(of_device); }

int streak(unsigned long address, unsigned long size, unsigned kind, unsigned long pc) {
  return address - Runner::active()->running()->base() >= HIPRT_CPU_STACK_SIZE && begin_streak(address, size, kind, pc);
}

void *allocate(unsigned long size) {
  void *memory = std::malloc(size);
  if (memory) memory_taken(reinterpret_cast<uintptr_t>(memory), size, false);
  if (is_checking()) note_own_memory();
  return memory;
}

void release(void *memory) {
  if (is_checking()) note_own_memory();
  memory_given_back(reinterpret_cast<uintptr_t>(memory));
  std::free(memory);
}

void fail(const char *kind, const char *text, const char *file, unsigned line, const char *function) {
  std::string message = kind;
  if (*text) message = std::string(file) + ":" + std::to_string(line) + ": " + function + ": assertion '" + text + "' failed";
  Runner::active()->fail(*text ? hipErrorAssert : hipErrorLaunchFailure, message);
}

int print(const char *format, va_list arguments) {
  printed.store(true, std::memory_order_relaxed);
  return std::vprintf(format, arguments);
}

unsigned long long nanoseconds() {
  Runner::active()->read_clock();
  return static_cast<unsigned long long>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

char *thread_pointer() {
#if defined(__x86_64__)  // gcc has the builtin function from version 11 on
  char *p;
  __asm__("mov %%fs:0, %0" : "=r"(p));
  return p;
#else
  return static_cast<char *>(__builtin_thread_pointer());
#endif
}

__hiprt_host make_table() {
  __hiprt_host table{};
  table.barrier = barrier;
  table.warp = warp;
  table.check = reinterpret_cast<char *>(&core_context) - thread_pointer();
  table.access = access;
  table.fence = fence;
  table.streak = streak;
  table.fail = fail;
  table.print = print;
  table.clock = nanoseconds;
  table.copy = [](void *to, const void *from, unsigned long n) { return std::memcpy(to, from, n); };
  table.move = [](void *to, const void *from, unsigned long n) { return std::memmove(to, from, n); };
  table.fill = [](void *to, int value, unsigned long n) { return std::memset(to, value, n); };
  table.compare = [](const void *a, const void *b, unsigned long n) { return std::memcmp(a, b, n); };
  table.allocate = allocate;
  table.release = release;
  table.fma_float = [](float a, float b, float c) { return std::fma(a, b, c); };
  table.fma_double = [](double a, double b, double c) { return std::fma(a, b, c); };
#define HIPRT_CPU_ENTRY(name) table.name = [](double x) { return std::name(x); };
  HIPRT_CPU_HOST_UNARY(HIPRT_CPU_ENTRY)
#undef HIPRT_CPU_ENTRY
#define HIPRT_CPU_ENTRY(name) table.name = [](double x, double y) { return std::name(x, y); };
  HIPRT_CPU_HOST_BINARY(HIPRT_CPU_ENTRY)
#undef HIPRT_CPU_ENTRY
  return table;
}

}  // namespace

const __hiprt_host &host_callbacks() {
  static const __hiprt_host table = make_table();
  return table;
}

void flush_prints() {
  if (printed.load(std::memory_order_relaxed) && printed.exchange(false)) std::fflush(stdout);
}

}  // namespace cpu
