#include "engine/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

#include "include/cpu_abi.h"

#if defined(__SANITIZE_ADDRESS__)
#include <pthread.h>
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

// A prepared stack starts here, with the entry function and its argument in preserved registers.
extern "C" void hiprt_fiber_begin();

#if defined(__x86_64__)
__asm__(R"(
  .text
  .globl hiprt_fiber_jump
  .hidden hiprt_fiber_jump
  .type hiprt_fiber_jump, @function
hiprt_fiber_jump:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
  .size hiprt_fiber_jump, . - hiprt_fiber_jump
  .globl hiprt_fiber_begin
  .hidden hiprt_fiber_begin
  .type hiprt_fiber_begin, @function
hiprt_fiber_begin:
  mov %r12, %rdi
  xor %ebp, %ebp
  call *%r13
  ud2
  .size hiprt_fiber_begin, . - hiprt_fiber_begin
)");
#elif defined(__aarch64__)
__asm__(R"(
  .text
  .globl hiprt_fiber_jump
  .hidden hiprt_fiber_jump
  .type hiprt_fiber_jump, %function
hiprt_fiber_jump:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
  .size hiprt_fiber_jump, . - hiprt_fiber_jump
  .globl hiprt_fiber_begin
  .hidden hiprt_fiber_begin
  .type hiprt_fiber_begin, %function
hiprt_fiber_begin:
  mov x0, x19
  mov x29, #0
  mov x30, #0
  blr x20
  brk #1
  .size hiprt_fiber_begin, . - hiprt_fiber_begin
)");
#else
#error "the CPU device supports x86-64 and aarch64"
#endif

namespace cpu {

void fiber_prepare(Fiber *fiber, const void *stack, char *top, void (*entry)(void *), void *argument) {
#if defined(__SANITIZE_ADDRESS__)
  // The frames that a failed kernel left on the stack are given up.
  __asan_unpoison_memory_region(stack, size_t(top - static_cast<const char *>(stack)));
#endif
  char *aligned = reinterpret_cast<char *>(reinterpret_cast<uintptr_t>(top) & ~uintptr_t{15});
#if defined(__x86_64__)
  // The frame is one that hiprt_fiber_jump leaves: r15 r14 r13 r12 rbx rbp, return address. The stack is aligned at the
  // call in begin.
  void *frame[8] = {nullptr, nullptr, reinterpret_cast<void *>(entry), argument, nullptr, nullptr,
                    reinterpret_cast<void *>(&hiprt_fiber_begin), nullptr};
  char *pointer = aligned - 72;
#else
  void *frame[20] = {argument, reinterpret_cast<void *>(entry)};
  frame[11] = reinterpret_cast<void *>(&hiprt_fiber_begin);
  char *pointer = aligned - sizeof frame;
#endif
  std::memcpy(pointer, frame, sizeof frame);
  fiber->stack_pointer = pointer;
  fiber->stack = stack;
  fiber->stack_size = size_t(top - static_cast<const char *>(stack));
#if defined(__SANITIZE_THREAD__)
  if (fiber->sanitizer) __tsan_destroy_fiber(fiber->sanitizer);
  fiber->sanitizer = __tsan_create_fiber(0);
#else
  fiber->sanitizer = nullptr;
#endif
}

#if defined(__SANITIZE_ADDRESS__)

void fiber_started() { __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr); }

void fiber_home(Fiber *fiber) {
  thread_local void *stack = nullptr;
  thread_local size_t size = 0;
  pthread_attr_t attributes;
  if (!stack && pthread_getattr_np(pthread_self(), &attributes) == 0) {
    pthread_attr_getstack(&attributes, &stack, &size);
    pthread_attr_destroy(&attributes);
  }
  fiber->stack = stack;
  fiber->stack_size = size;
}

void fiber_switch(Fiber *from, Fiber *to, bool keep) {
  __sanitizer_start_switch_fiber(keep ? &from->sanitizer : nullptr, to->stack, to->stack_size);
  hiprt_fiber_jump(&from->stack_pointer, to->stack_pointer);
  __sanitizer_finish_switch_fiber(from->sanitizer, nullptr, nullptr);
}

#elif defined(__SANITIZE_THREAD__)

void fiber_started() {}

void fiber_home(Fiber *fiber) { fiber->sanitizer = __tsan_get_current_fiber(); }

void fiber_switch(Fiber *from, Fiber *to, bool) {
  __tsan_switch_to_fiber(to->sanitizer, 0);
  hiprt_fiber_jump(&from->stack_pointer, to->stack_pointer);
}

#else

void fiber_started() {}
void fiber_home(Fiber *) {}

#endif

StackSlab::StackSlab() {
  const size_t size = (kCount + 1) * HIPRT_CPU_STACK_SIZE;
  void *p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return;
  mapping_ = static_cast<char *>(p);
  const uintptr_t address = reinterpret_cast<uintptr_t>(p);
  const uintptr_t aligned = (address + HIPRT_CPU_STACK_SIZE - 1) & ~(HIPRT_CPU_STACK_SIZE - 1);
  first_ = mapping_ + (aligned - address);
  // The system limits the number of guard pages. A stack without one works; its overflow is not caught.
  for (size_t i = 0; i < kCount; ++i) (void)mprotect(stack(i), guard_size(), PROT_NONE);
}

StackSlab::~StackSlab() {
  if (mapping_) munmap(mapping_, (kCount + 1) * HIPRT_CPU_STACK_SIZE);
}

char *StackSlab::stack(size_t i) const { return first_ ? first_ + i * HIPRT_CPU_STACK_SIZE : nullptr; }

size_t StackSlab::guard_size() {
  static const size_t size = size_t(sysconf(_SC_PAGESIZE));
  return size;
}

}  // namespace cpu
