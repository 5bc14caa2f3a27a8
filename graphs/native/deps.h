/* Dependencies: which earlier nodes a node must wait for, from the byte ranges that each node reads and writes.
 *
 * An ordered tree of disjoint address segments keeps the last writer of each and the readers since. A read waits for
 * the writer (RAW); a write waits for the writer (WAW) and the readers (WAR). Redundant edges are dropped with a chain
 * decomposition: nodes are threaded onto at most HIPRT_CHAINS chains, and each node keeps, for each chain, the last
 * position that it is ordered after; a dependency that another dependency is already ordered after adds nothing. A node
 * costs O(log segments + dependencies * chains), independent of the number of nodes. */
#pragma once
#include <stdint.h>

#define HIPRT_CHAINS 16

/* cffi begin */
/* Which edges are made: what the data asks for, each node after the one before, or both with nothing reduced. */
enum hiprt_edges { HIPRT_EDGES_DATA = 1, HIPRT_EDGES_CHAIN = 2, HIPRT_EDGES_BOTH = 3 };
/* cffi end */

typedef struct hiprt_deps hiprt_deps;

hiprt_deps *hiprt_deps_create(void);
/* Several recorders may hold one that gets no more nodes; NULL is held and let go as nothing. */
hiprt_deps *hiprt_deps_retain(hiprt_deps *deps);
void hiprt_deps_release(hiprt_deps *deps);
void hiprt_deps_set_edges(hiprt_deps *deps, uint32_t edges);

/* Start the next node (0, 1, 2 …), declare its ranges, then collect. All return 0 or HIPRT_E_MEMORY. */
int hiprt_deps_begin(hiprt_deps *deps);
int hiprt_deps_access(hiprt_deps *deps, uint64_t start, uint64_t end, int write);
/* Make this node wait for all before it, and all after it wait for this node. */
int hiprt_deps_barrier(hiprt_deps *deps);
/* Whether a node has declared that it writes in [start, end). */
int hiprt_deps_has_writer(const hiprt_deps *deps, uint64_t start, uint64_t end);
/* Whether an earlier node may have written in [start, end). */
int hiprt_deps_is_written(const hiprt_deps *deps, uint64_t start, uint64_t end);
/* Return the number of distinct bytes declared so far. */
uint64_t hiprt_deps_bytes(const hiprt_deps *deps);
/* Give the node's dependencies, ascending and reduced; valid until the next begin. */
int hiprt_deps_end(hiprt_deps *deps, const uint32_t **out_deps, uint32_t *out_count);
