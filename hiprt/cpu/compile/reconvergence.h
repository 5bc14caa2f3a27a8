// Reconvergence: marks in a program's text by which the lanes of a warp meet again. A GPU keeps lanes together that
// took the same way through a program, and so does the engine.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace cpu {

// The functions and macros of a program in which lanes may meet: they use a warp operation, or call one that does.
struct Meetings {
  std::set<std::string> functions, macros;
};

Meetings find_meetings(const std::vector<std::string> &texts);

// Declares a step (cpu_warp.h) around every call of such a function, and in every loop in which lanes may meet. Lines
// keep their numbers. Text that a line directive places in a file of ours, "hiprt/…", is left as it is.
std::string insert_steps(const std::string &text, const Meetings &meetings);

}  // namespace cpu
