// hipGraphExecUpdate as CLR does it: nodes are matched by their position in breadth-first order and nothing else.
#pragma once

#include "graph/exec.h"

namespace cpu {

// Changes node after node; what a failure finds changed stays changed.
hipError_t update_by_position(Exec &exec, const Graph &graph, const Node **culprit, hipGraphExecUpdateResult *result);

}  // namespace cpu
