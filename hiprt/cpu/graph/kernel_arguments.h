// Counts the memory that the packets of an executable graph take for their arguments.
#pragma once

#include <cstddef>

#include "graph/graph.h"

namespace cpu {

// Returns whether CLR turns such a node into a packet when the graph is instantiated. Other nodes become commands at
// each launch.
bool is_packet(const Action &action);

class Kernargs {
 public:
  // Counts a packet that is built, or built again. hipErrorOutOfMemory: kernarg_limit is reached.
  hipError_t take(const Action &action, bool again);
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
};

}  // namespace cpu
