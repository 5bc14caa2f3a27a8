/* Recorders: the nodes of one step in program order, each with a payload of its own, and the edges from their byte ranges.
 *
 * A recorder is counted by references, and holds one to each of its kernels. One thread at a time adds nodes or changes
 * them; when that is over, several may read it. How nodes come into one: recording.h. What else is asked of one: compare.h,
 * addresses.h and touches.h. */
#pragma once
#include <stdint.h>

#include "deps.h"
#include "library.h"
#include "node.h"

/* cffi begin */
/* edges: hiprt_edges. */
int hiprt_recorder_create(uint32_t edges, hiprt_recorder **out_recorder);
void hiprt_recorder_release(hiprt_recorder *recorder);
/* Set the bounds after which recording says HIPRT_E_FULL; 0: none. bytes: of distinct memory declared. */
void hiprt_recorder_limit(hiprt_recorder *recorder, uint32_t nodes, uint64_t bytes);
/* Call `added` with `owner` for each node that is recorded from now on, in the thread that launches it, before the
 * launch returns; NULL ends that. */
void hiprt_recorder_watch(hiprt_recorder *recorder, void (*added)(void *owner), void *owner);
int hiprt_recorder_is_full(const hiprt_recorder *recorder);
/* Return how many references there are at this moment; execs, and who makes one, hold some. */
uint32_t hiprt_recorder_references(const hiprt_recorder *recorder);
/* Whether an exec, or another recording, has nodes of the capture that this one was made of. */
int hiprt_recorder_is_in_use(const hiprt_recorder *recorder);
uint32_t hiprt_recorder_size(const hiprt_recorder *recorder);
/* Return the number of nodes that are work of other code. */
uint32_t hiprt_recorder_foreign(const hiprt_recorder *recorder);
/* Return the number of edges. */
uint64_t hiprt_recorder_edges(const hiprt_recorder *recorder);
/* Return the size of all payloads. */
uint64_t hiprt_recorder_bytes(const hiprt_recorder *recorder);
/* Show a node. HIPRT_E_ARGUMENT: there is none. */
int hiprt_recorder_node(const hiprt_recorder *recorder, uint32_t index, hiprt_node *out_node);
/* Return a hash of the topology key (functions, dimensions, shared memory, edges); equal hashes need
 * hiprt_recorder_same_key too (G3). */
uint64_t hiprt_recorder_key(const hiprt_recorder *recorder);
/* Return a hash of the argument bytes of all nodes, by which arguments that come back are recognised. */
uint64_t hiprt_recorder_arguments(const hiprt_recorder *recorder);
/* cffi end */

/* Make room in an empty recorder for as much as another one has. */
int hiprt_recorder_reserve(hiprt_recorder *recorder, const hiprt_recorder *like);
void hiprt_recorder_retain(hiprt_recorder *recorder);
/* Whether a node could not be recorded for want of memory: what is recorded is not all that was launched. */
int hiprt_recorder_is_broken(const hiprt_recorder *recorder);
/* Say HIPRT_E_CAPTURED from now on where work that other code put on the stream, which is being captured, is to become
 * nodes first; NULL ends that. */
void hiprt_recorder_listen(hiprt_recorder *recorder, hipStream_t stream);
/* Return the device on which all nodes were captured; -1 where they were not. */
int hiprt_recorder_captured_on(const hiprt_recorder *recorder);
/* Give kind, kernel and payload of a node that there is, and nothing else of it. */
void hiprt_recorder_work(const hiprt_recorder *recorder, uint32_t index, hiprt_node *out_node);
