/* Dependencies: which earlier nodes a node must wait for, from the byte ranges each node reads and writes.
 *
 * An ordered tree of disjoint address segments keeps the last writer and the readers since. A read waits for the writer
 * (RAW); a write waits for the writer (WAW) and the readers (WAR). Redundant edges are dropped with a chain
 * decomposition: nodes are threaded onto at most HIPRT_CHAINS chains, and each node keeps, per chain, the last position
 * it is ordered after; a dependency that another dependency is already ordered after adds nothing. Cost per node:
 * O(log segments + dependencies * chains), independent of the number of nodes. */
#pragma once
#include <stdint.h>

#define HIPRT_CHAINS 16

typedef struct hiprt_deps hiprt_deps;

hiprt_deps *hiprt_deps_create(void);
void hiprt_deps_destroy(hiprt_deps *deps);
void hiprt_deps_reset(hiprt_deps *deps);

/* Which edges to make: HIPRT_EDGES_DATA, _CHAIN (each node after the one before), or both with nothing reduced. */
#define HIPRT_EDGES_DATA 1
#define HIPRT_EDGES_CHAIN 2
void hiprt_deps_set_edges(hiprt_deps *deps, uint32_t edges);

/* Start the next node (0, 1, 2 …), declare its ranges, then collect. All return 0 or HIPRT_E_MEMORY. */
int hiprt_deps_begin(hiprt_deps *deps);
int hiprt_deps_access(hiprt_deps *deps, uint64_t start, uint64_t end, int write);
int hiprt_deps_barrier(hiprt_deps *deps); /* this node waits for all before it, all after it wait for this node */
/* Whether an earlier node may have written in [start, end). */
int hiprt_deps_is_written(const hiprt_deps *deps, uint64_t start, uint64_t end);
/* Distinct bytes declared so far. */
uint64_t hiprt_deps_bytes(const hiprt_deps *deps);
/* The node's dependencies, ascending and reduced; valid until the next begin. */
int hiprt_deps_end(hiprt_deps *deps, const uint32_t **out_deps, uint32_t *out_count);
