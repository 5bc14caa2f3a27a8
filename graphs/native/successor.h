/* Successors: execs that a thread makes ahead: to take the place of those whose update budget will be spent (G7), or of
 * calls that are still to come.
 *
 * A successor belongs to the thread that has the ladder, and has references to its recording and canary until it ends. */
#pragma once
#include "exec.h"

/* cffi begin */
typedef struct hiprt_successor hiprt_successor;

/* Wait for the exec and drop it; NULL is dropped without effect. */
void hiprt_successor_release(hiprt_successor *successor);
/* cffi end */

/* Begin to make an exec of what a recorder holds, which must not change any more: the successor takes a reference to it.
 * NULL with the failure noted. */
hiprt_successor *hiprt_successor_create(hiprt_recorder *recorder, int device, uint32_t fanout, int overlap,
                                        hiprt_kernel *canary);
/* Wait for the exec and give it to the caller, with the successor's only reference. The successor ends. */
int hiprt_successor_take(hiprt_successor *successor, hiprt_exec **out_exec);
