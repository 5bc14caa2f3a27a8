/* Addresses: where the arguments of recorded nodes point, and how they come to point elsewhere.
 *
 * The edges stay as they are: who moves memory knows that none would change. A recorder's addresses are changed by one
 * thread, while no other uses the recorder. */
#pragma once
#include "captured_pointers.h"
#include "move.h"
#include "node.h"

/* cffi begin */
/* List the nodes with a buffer that begins in [start, end), or another address in it; out_nodes has room for all nodes. */
uint32_t hiprt_recorder_users(const hiprt_recorder *recorder, uint64_t start, uint64_t end, uint32_t *out_nodes);
/* Give all nodes the addresses that they have after the moves. */
void hiprt_recorder_relocate(hiprt_recorder *recorder, uint32_t n_moves, const hiprt_move *moves);
/* Give the words of a table the addresses that they have where each memory begins at starts[memory]. Only recordings of the
 * same nodes are pointed by one table, to which the recorder takes a reference. */
int hiprt_recorder_point(hiprt_recorder *recorder, hiprt_pointers *pointers, const uint64_t *starts);
/* cffi end */

/* Return the number of a node's addresses that lie in memory that moves. out_payload, unless NULL, receives them as
 * they are after the moves; it may be the node's payload itself. */
uint32_t hiprt_recorder_moved(const hiprt_recorder *recorder, uint32_t index, uint32_t n_moves, const hiprt_move *moves,
                              char *out_payload);
/* Return a node's payload, of which the caller changes addresses. */
char *hiprt_recorder_payload(hiprt_recorder *recorder, uint32_t index);
/* Give a node another payload of the same size. */
void hiprt_recorder_set_payload(hiprt_recorder *recorder, uint32_t index, const void *payload);
/* Return the table by which the nodes were pointed, and where each memory begins; NULL where none says all of it. */
const hiprt_pointers *hiprt_recorder_pointers(const hiprt_recorder *recorder, const uint64_t **out_starts);
/* Note that arguments are what a table says, to which a reference is taken, where memory begins at `starts`. */
int hiprt_recorder_keep_pointers(hiprt_recorder *recorder, hiprt_pointers *pointers, const uint64_t *starts);
/* Note that arguments are no longer what a table says. */
void hiprt_recorder_forget_pointers(hiprt_recorder *recorder);
