// Streaks: threads that follow each other access values that follow each other, from one place in the code. Such accesses are
// looked at together when the first comes, as far as they may go on, and noted together when the streak ends, so that one
// of them costs little. Kernels that do not synchronise have them, whose threads run one after the other.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cpu {

// The first is called before a kernel, the others around a row of its threads.
void forget_streaks();
void begin_row(unsigned first, unsigned threads);
void end_row();

// Begins a streak with an access by the running thread, and returns true, if it and the following ones would be plain: nothing
// is wrong with them, and nothing is to be known of their words but these accesses.
bool begin_streak(uintptr_t address, size_t size, unsigned kind, uintptr_t pc);
// Notes the accesses of streaks before something else looks at what they may touch: a range, or anything.
void end_streaks_at(uintptr_t address, size_t size);
void end_streaks();

}  // namespace cpu
