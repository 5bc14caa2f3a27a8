/* Successors: execs that a thread makes ahead, to take the place of those whose update budget will be spent (G7). */
#pragma once
#include "exec.h"

typedef struct hiprt_successor hiprt_successor;

/* Begin to make an exec of what a recorder holds now, of which it takes a copy: a move changes the recorder of the old
 * exec where it is. NULL with the failure noted. */
hiprt_successor *hiprt_successor_create(const hiprt_recorder *recorder, int device, uint32_t fanout, int overlap,
                                        hiprt_kernel *canary);
/* Wait for the exec and give it to the caller, with the successor's only reference. The successor ends. */
int hiprt_successor_take(hiprt_successor *successor, hiprt_exec **out_exec);
/* Wait for the exec and drop it; NULL is dropped without effect. */
void hiprt_successor_release(hiprt_successor *successor);
