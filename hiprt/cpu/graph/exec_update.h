// hipGraphExecUpdate: the nodes of two graphs are paired by structure, all pairs are checked, and then all nodes are
// changed or none.
#pragma once

#include <utility>
#include <vector>

#include "graph/exec.h"

namespace cpu {

// Pairs the nodes of an executable graph with those of a newer definition, by structure, and checks that each may be
// updated. On success every pair is in *pairs; otherwise *culprit is the newer graph's offending node, or null.
using NodePairs = std::vector<std::pair<Node *, const Node *>>;
hipGraphExecUpdateResult match(const Graph &now, const Graph &next, unsigned long long flags, NodePairs *pairs,
                               const Node **culprit);
// Gives the nodes of the executable graph the actions of their partners: all of them or, if memory runs out, none.
hipError_t apply_updates(Exec &exec, const NodePairs &pairs);
// Changes one node as hipGraphExecUpdate does, with CLR's quirks.
hipError_t update_node(Exec &exec, Node *now, Action action);

// Makes the executable graph do what the newer definition does. If it cannot, *culprit is the offending node, or null.
hipError_t update_by_structure(Exec &exec, const Graph &graph, const Node **culprit, hipGraphExecUpdateResult *result);

}  // namespace cpu
