// Draws a graph as text for Graphviz.
#pragma once

#include <string>

#include "graph/graph.h"

namespace cpu {

// `flags`, of hipGraphDebugDotFlags, say what the text shows beside names and edges.
std::string dot_text(const Graph &graph, unsigned flags);

}  // namespace cpu
