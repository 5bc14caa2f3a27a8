#include "rung_costs.h"

#include <stdatomic.h>
#include <stdio.h>

const char hiprt_rung_no_change[] =
    "HIPRT_GRAPH_RUNGS, a failed probe or HIPRT_GRAPH_UPDATE_BUDGET allows no such change";

/* Seconds a node, of patches and of updates. Two threads may lose one another's measurement, which is only an average. */
static _Atomic double costs[] = {[HIPRT_PATCH] = -1, [HIPRT_UPDATE] = -1};

void hiprt_rung_why_another(uint32_t same, uint32_t free, int is_drained, int comes_back, uint32_t slots, char *out) {
  const char *why = "";
  *out = 0;
  if (!same)
    why = "first of this topology";
  else if (!free)
    why = "every exec of this topology is kept for a call with other arguments";
  else if (free < slots && !is_drained)
    snprintf(out, HIPRT_REASON, "%u of this topology, all in flight", free);
  else if (free < slots && comes_back)
    why = "these arguments come back: they get an exec of their own";
  if (*why) snprintf(out, HIPRT_REASON, "%s", why);
}

uint32_t hiprt_rung_cheaper(uint32_t changed, uint32_t nodes, uint32_t rungs) {
  const int may_patch = rungs >> HIPRT_PATCH & 1, may_update = rungs >> HIPRT_UPDATE & 1;
  if (!may_patch || !may_update) return may_patch ? HIPRT_PATCH : may_update ? HIPRT_UPDATE : HIPRT_EAGER;
  const double patch = costs[HIPRT_PATCH], update = costs[HIPRT_UPDATE];
  if (patch < 0) return HIPRT_PATCH;
  if (update < 0) return changed > 2 * (uint64_t)nodes / 3 ? HIPRT_UPDATE : HIPRT_PATCH;
  return patch * changed <= update * nodes ? HIPRT_PATCH : HIPRT_UPDATE;
}

void hiprt_rung_measure(uint32_t rung, double seconds, uint32_t nodes) {
  if (!nodes) return;
  const double before = costs[rung], now = seconds / nodes;
  costs[rung] = before < 0 ? now : 0.8 * before + 0.2 * now;
}

void hiprt_rung_set_cost(uint32_t rung, double seconds) { costs[rung] = seconds; }
