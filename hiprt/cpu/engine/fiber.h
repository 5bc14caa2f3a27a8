// Fibers: kernel threads with stacks of their own, and the switch from one to another.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace cpu {

// A flow of control that can be left and resumed. One made by default stands for the operating system's thread.
struct Fiber {
  void *stack_pointer = nullptr;  // set while the fiber is not running
  const void *stack = nullptr;    // lowest usable address; the sanitizers need it and the size
  size_t stack_size = 0;
  void *sanitizer = nullptr;      // AddressSanitizer's fake stack, or ThreadSanitizer's fiber
};

// Makes `fiber` start with entry(argument), below `top` on its stack, when it is switched to. `entry` never returns.
void fiber_prepare(Fiber *fiber, const void *stack, char *top, void (*entry)(void *), void *argument);

// Pushes the registers that a call preserves, stores the stack pointer at *save, and resumes `to`.
extern "C" void hiprt_fiber_jump(void **save, void *to);

// Leaves `from` and resumes `to`; returns when something switches back to `from`. `keep` is false if nothing ever will.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
void fiber_switch(Fiber *from, Fiber *to, bool keep = true);
#else
inline void fiber_switch(Fiber *from, Fiber *to, bool = true) { hiprt_fiber_jump(&from->stack_pointer, to->stack_pointer); }
#endif

// Every prepared fiber calls this first.
void fiber_started();

// Makes `fiber` stand for the calling thread of the operating system.
void fiber_home(Fiber *fiber);

// Stacks that are aligned to their size. Below each lies a page that cannot be touched.
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
