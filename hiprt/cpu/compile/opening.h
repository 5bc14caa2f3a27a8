// The opening of a program: what is read before its own text. Many programs have the same one, so the compiler's form of
// it (clang's precompiled header) is kept with the compiled programs: it saves a quarter of a small kernel's compile time.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace cpu {

// Returns how many bytes of a program's text belong to its opening: those up to the first line directive that names
// another file than ours, "hiprt/…". They include no files.
size_t opening_of(const std::string &text);

// Returns the compiler's form of the opening with this key: from this process, from the cache, or made by `make`. Empty
// if `make` fails, or if this is the first program of the process with an opening that nobody has kept: most openings
// that are not shared stop there. Threads that ask meanwhile wait.
std::shared_ptr<const std::string> precompiled_opening(const std::string &key, const std::function<bool(std::string *)> &make);

}  // namespace cpu
