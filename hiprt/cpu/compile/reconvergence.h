// Marking a program's text for the lanes of a warp: GPUs keep those together that took one way through it, and so do we.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace cpu {

// Names of a program in which lanes may meet: they use a warp operation, or one another.
struct Meetings {
  std::set<std::string> functions, macros;
};

Meetings find_meetings(const std::vector<std::string> &texts);

// Declare a step (cpu_warp.h) around every call of such a function, and in every loop in which lanes may meet. Lines keep
// their numbers. What a line directive places in a file of ours, "hiprt/…", is left as it is.
std::string insert_steps(const std::string &text, const Meetings &meetings);

}  // namespace cpu
