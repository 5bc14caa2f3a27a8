/* Policy: which rung a recording takes, by what the rungs have cost, by the slots that are free and by the update budget. */
#pragma once
#include <stdint.h>

#include "hiprt/hiprt.h"

/* cffi begin */
/* Say why a recording gets an executable graph of its own; *out_reason, of HIPRT_REASON bytes, stays empty where one that
 * exists is changed instead.
 * same: executable graphs of its topology. free: those that no kept call launches again as they are. is_drained: one of
 * the free ones has no launch in flight. comes_back: the recording's arguments were seen before. */
void hiprt_policy_why_another(uint32_t same, uint32_t free, int is_drained, int comes_back, uint32_t slots, char *out_reason);
/* Return patch or update, whichever is cheaper for this many changed nodes of all by what both have cost so far in this
 * process; eager where `rungs` allows neither. One that was never taken is tried where it has less to do. */
uint32_t hiprt_policy_cheaper(uint32_t changed, uint32_t nodes, uint32_t rungs);
/* Return the share of its update budget that an exec has used after one more change, of which more than 1 is too much (G7);
 * negative where the change alone is more than any exec may take. */
double hiprt_policy_budget(const hiprt_rules *rules, uint64_t used_nodes, uint64_t used_bytes, uint32_t nodes,
                           uint64_t bytes);
/* Take what a patch or an update cost into its moving average. */
void hiprt_policy_measure(uint32_t rung, double seconds, uint32_t nodes);
/* Return the seconds that a patch or an update costs for a node; negative before the first. */
double hiprt_policy_cost(uint32_t rung);
/* Set them; negative: it was never taken. */
void hiprt_policy_set_cost(uint32_t rung, double seconds);
/* cffi end */

/* The reason where no change is allowed. */
extern const char hiprt_policy_no_change[];
