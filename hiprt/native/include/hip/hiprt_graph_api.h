/* What hiprt asks of a HIP library beyond HIP; a library may lack it. */
#ifndef HIPRT_HIP_HIPRT_GRAPH_API_H
#define HIPRT_HIP_HIPRT_GRAPH_API_H

#include "hip/hip_runtime_api.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Add a kernel node behind another kernel node, which it waits for by itself: it may start before that one has finished. */
hipError_t hiprtGraphAddKernelNodeOverlapped(hipGraphNode_t *node, hipGraph_t graph, hipGraphNode_t after,
                                             const hipKernelNodeParams *params);
/* hipGraphGetEdges, with 1 in overlaps[k] where edge k is one that the node at its end waits for by itself. */
hipError_t hiprtGraphGetEdgesWithOverlap(hipGraph_t graph, hipGraphNode_t *from, hipGraphNode_t *to, unsigned char *overlaps,
                                         size_t *count);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
