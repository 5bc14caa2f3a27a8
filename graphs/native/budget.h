/* The update budget: how much may be patched and updated in one executable graph before a new one takes its place (G7).
 *
 * Any thread may ask. */
#pragma once
#include <stdint.h>

#include "hiprt/hiprt.h"

/* The share from which the successor of an exec is made ahead. */
#define HIPRT_BUDGET_SUCCESSOR 0.5

/* cffi begin */
/* Return the share of its update budget that an exec has used after one more change, of which more than 1 is too much (G7);
 * negative where the change alone is more than any exec may take. */
double hiprt_budget_used(const hiprt_rules *rules, uint64_t used_nodes, uint64_t used_bytes, uint32_t nodes,
                         uint64_t bytes);
/* cffi end */
