/* Moved arrays: where a recording's buffers lie (its placement), so that some of them can be moved without a look at all nodes.
 *
 * A placement belongs to one thread at a time. It knows the recording as it was, and the moves that it allowed since. */
#pragma once
#include "recorder.h"

typedef struct hiprt_placement hiprt_placement;

int hiprt_placement_create(const hiprt_recorder *recorder, hiprt_placement **out_placement);
void hiprt_placement_release(hiprt_placement *placement);
/* List the nodes with a buffer that begins in memory that moves, each once, in `out_nodes`, which the placement owns
 * until the next call; *out_bytes: the size of their arguments.
 * HIPRT_E_ARGUMENT: memory would come to lie where other buffers of the recording are, or past the last address, or the
 * moves are empty, or not ascending and disjoint. */
int hiprt_placement_find(hiprt_placement *placement, uint32_t n_moves, const hiprt_move *moves, uint32_t *out_count,
                         const uint32_t **out_nodes, uint64_t *out_bytes);
/* Note that the moves found last were made. */
void hiprt_placement_move(hiprt_placement *placement, uint32_t n_moves, const hiprt_move *moves);
