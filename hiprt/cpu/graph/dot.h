// A graph as text for Graphviz.
#pragma once

#include <string>

#include "graph/graph.h"

namespace cpu {

// flags: what the text shows beside names and edges, hipGraphDebugDotFlags.
std::string dot_text(const Graph &graph, unsigned flags);

}  // namespace cpu
