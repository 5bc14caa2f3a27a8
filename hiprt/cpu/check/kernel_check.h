// The checks of running kernels: each access is held against the shadow of memory and the order of threads. Cores may execute
// blocks side by side that tell each other nothing: each looks at its own, and what they did is held against each other when
// the kernel ends.
#pragma once

#include <cstdint>
#include <vector>

#include "check/checked_kernel.h"

namespace cpu {

void begin_kernel(const CheckedKernel &kernel);
// A core begins to execute blocks of the kernel, and stops.
void enter_core(unsigned core);
void leave_core();
// `shared` is the memory of the block: static variables, and dynamic ones behind them.
void begin_checked_block(const unsigned (&index)[3], const unsigned char *shared);
// The blocks of a cooperative launch all begin first. One is left when its threads have ended or are at the grid's barrier,
// another is entered, and once all have come they pass.
void leave_checked_block();
void enter_checked_block(const unsigned (&index)[3], const unsigned char *shared);
void pass_checked_grid();
// Returns whether blocks may have told each other something: by a fence of the device, an atomic operation that releases, or
// memory that they took or freed.
bool end_kernel();

// Says which thread of the block goes on.
void resume_thread(unsigned thread);
// An access of the running thread, or its fence.
void check_access(uintptr_t address, size_t size, unsigned kind, uintptr_t pc);
void check_fence(bool of_device);
// The running thread takes or frees memory, which others may get.
void note_own_memory();

// Something waits at a barrier or exits without it; `places` are where, 0 for threads that have exited.
void check_barrier(const std::vector<uintptr_t> &places);
// All threads of the block have waited for each other; all lanes of a set have.
void order_block();
void order_lanes(unsigned first, uint32_t lanes);
// A lane reads the value of another that takes no part.
void report_inactive_lane(unsigned thread, unsigned source, bool has_exited, uintptr_t pc);

// Notes a module's code and its lines.
void module_loaded(uintptr_t base, size_t size, const unsigned char *lines, size_t lines_size);
void module_unloaded(uintptr_t base, size_t size);

}  // namespace cpu
