/* Canaries: one more kernel in a graph, which writes the number of the exec's last change into host memory. So a patch
 * or an update that reported success and changed nothing is noticed after the next launch.
 *
 * A canary is a part of an exec, which owns it, and is used by the thread that changes or waits for the exec. */
#pragma once
#include "kernel.h"

typedef struct {
  hiprt_kernel *kernel; /* void (uint32_t *word, uint32_t epoch); NULL: there is no canary */
  hipGraphNode_t node;
  uint32_t *word; /* pinned host memory */
  uint32_t epoch;
  int is_due; /* launched since the last change */
} hiprt_canary;

int hiprt_canary_open(hiprt_canary *canary, hiprt_kernel *kernel);
void hiprt_canary_close(hiprt_canary *canary);
/* Add the canary to a graph, behind a node that nothing depends on. */
int hiprt_canary_add(hiprt_canary *canary, hipGraph_t graph, hipGraphNode_t behind);
/* Count a change, and give the number to the canary's node: in the graph, from which an update takes it, or in the exec. */
int hiprt_canary_set(hiprt_canary *canary);
int hiprt_canary_patch(hiprt_canary *canary, hipGraphExec_t exec);
/* Return HIPRT_E_STALE unless the last launch, which has finished, carried the last change. */
int hiprt_canary_check(const hiprt_canary *canary);
