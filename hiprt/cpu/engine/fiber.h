// Stacks of their own for kernel threads, and the switch from one to another.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace cpu {

// A flow of control that can be left and taken up again. Default-made: the flow of the operating system's thread.
struct Fiber {
  void *stack_pointer = nullptr;  // while it is not running
  const void *stack = nullptr;    // lowest usable address and size, for the sanitizers
  size_t stack_size = 0;
  void *sanitizer = nullptr;      // fake stack (address) or fiber (thread)
};

// Make `fiber` start with entry(argument) below `top` on its stack when it is switched to. entry never returns.
void fiber_prepare(Fiber *fiber, const void *stack, char *top, void (*entry)(void *), void *argument);

// Push what a call must preserve, store the stack pointer at *save, take up `to`.
extern "C" void hiprt_fiber_jump(void **save, void *to);

// Leave `from` and go on with `to`; returns when something switches back to `from`. keep: false if nothing ever will.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
void fiber_switch(Fiber *from, Fiber *to, bool keep = true);
#else
inline void fiber_switch(Fiber *from, Fiber *to, bool = true) { hiprt_fiber_jump(&from->stack_pointer, to->stack_pointer); }
#endif

// The first thing a prepared fiber does.
void fiber_started();

// Make `fiber` stand for the operating system's thread that calls.
void fiber_home(Fiber *fiber);

// Stacks aligned to their size, each with a page below it that cannot be touched.
class StackSlab {
 public:
  static constexpr size_t kCount = 32;
  StackSlab();
  ~StackSlab();
  StackSlab(const StackSlab &) = delete;
  StackSlab &operator=(const StackSlab &) = delete;
  char *stack(size_t i) const;  // null if there was no memory
  static size_t guard_size();

 private:
  char *mapping_ = nullptr, *first_ = nullptr;
};

}  // namespace cpu
