#include "budget.h"

double hiprt_budget_used(const hiprt_rules *rules, uint64_t used_nodes, uint64_t used_bytes, uint32_t nodes,
                         uint64_t bytes) {
  if (nodes > rules->budget_nodes || bytes > rules->budget_bytes) return -1;
  const double of_nodes = (double)(used_nodes + nodes) / (double)rules->budget_nodes;
  const double of_bytes = (double)(used_bytes + bytes) / (double)rules->budget_bytes;
  return of_nodes > of_bytes ? of_nodes : of_bytes;
}
