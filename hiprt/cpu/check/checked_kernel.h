// A kernel whose accesses are checked, as the engine begins it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cpu {

// A variable in shared memory: where it lies there, and its symbol.
struct SharedPiece {
  uint64_t offset, size;
  std::string name;
};

// A kernel that is about to run. Threads are named by their number in the block.
struct CheckedKernel {
  std::string name;
  unsigned grid[3], block[3];
  const unsigned char *arguments;
  size_t arguments_size;
  uintptr_t code;                          // where its module begins
  const std::vector<SharedPiece> *pieces;  // static variables in shared memory
  size_t dynamic_shared;
  bool is_shared;  // by cores that execute its blocks side by side
};

}  // namespace cpu
