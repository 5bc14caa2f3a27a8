/* Rung costs: which rung a recording takes, by what the rungs have cost and by the slots that are free.
 *
 * The costs are the process's. Any thread may ask and measure. */
#pragma once
#include <stdint.h>

#include "hiprt/hiprt.h"

/* cffi begin */
/* Say why a recording gets an executable graph of its own; *out_reason, of HIPRT_REASON bytes, stays empty where one that
 * exists is changed instead.
 * same: executable graphs of its topology. free: those that no kept call launches again as they are. is_drained: one of
 * the free ones has no launch in flight. comes_back: the recording's arguments were seen before. */
void hiprt_rung_why_another(uint32_t same, uint32_t free, int is_drained, int comes_back, uint32_t slots, char *out_reason);
/* Return patch or update, whichever is cheaper for this many changed nodes of all by what both have cost so far in this
 * process; eager where `rungs` allows neither. One that was never taken is tried where it has less to do. */
uint32_t hiprt_rung_cheaper(uint32_t changed, uint32_t nodes, uint32_t rungs);
/* Set the seconds that a patch or an update costs for a node; negative: it was never taken. */
void hiprt_rung_set_cost(uint32_t rung, double seconds);
/* cffi end */

/* Take what a patch or an update cost into its moving average. */
void hiprt_rung_measure(uint32_t rung, double seconds, uint32_t nodes);
/* The reason where no change is allowed. */
extern const char hiprt_rung_no_change[];
