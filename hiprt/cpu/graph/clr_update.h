// hipGraphExecUpdate as CLR does it: nodes are paired by their position in breadth-first order and nothing else.
#pragma once

#include "graph/exec.h"

namespace cpu {

// Changes node after node. Nodes that were changed before a failure stay changed.
hipError_t update_by_position(Exec &exec, const Graph &graph, const Node **culprit, hipGraphExecUpdateResult *result);

}  // namespace cpu
