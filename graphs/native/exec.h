/* Execs: an executable graph, the graph that it was instantiated from, and the recording that both were made of.
 *
 * An exec is counted by references, and holds one to its recording. Any thread may launch it and ask about its launches, for
 * which it has a lock; one at a time changes it, the one that has its ladder. */
#pragma once
#include <stdint.h>

#include "captured_pointers.h"
#include "compare.h"
#include "recorder.h"

/* cffi begin */
typedef struct hiprt_exec hiprt_exec;

/* Make an exec; it takes references to recorder and canary.
 * fanout: the most edges that leave a node, at least 2; 0: no bound, and as many roots as there are.
 * overlap: nodes that may start before the one they depend on has finished do, where the library has programmatic
 * edges.
 * canary: a kernel (uint32_t *word, uint32_t value) that writes the value, to find changes that HIP reports and does
 * not make; or NULL. With one, busy, wait, patch, update and move may return HIPRT_E_STALE. */
int hiprt_exec_create(hiprt_recorder *recorder, int device, uint32_t fanout, int overlap, hiprt_kernel *canary,
                      hiprt_exec **out_exec);
/* Take one more reference, or give one up; behind the last an exec is destroyed once its last launch is done. */
void hiprt_exec_retain(hiprt_exec *exec);
void hiprt_exec_release(hiprt_exec *exec);
/* Change the number of kept calls that launch an exec again as it is, and return it; while there are any, a ladder puts
 * no other recording's arguments into the exec. */
uint32_t hiprt_exec_hold(hiprt_exec *exec, int by);
/* Launch the graph. is_fenced: an event is recorded behind it, which says when this launch is done. Without, on a
 * stream that is its own, whoever asks later hears when everything is done that is on the stream by then.
 * *out_ran: 0 if the call failed and the graph has certainly not been launched, so that its nodes may be run instead; 1
 * if it has been, or may have been. */
int hiprt_exec_launch(hiprt_exec *exec, hiprt_stream *stream, int is_fenced, int *out_ran);
/* Return the number of the last launch, counted over all execs; 0 before the first. */
uint64_t hiprt_exec_launched(const hiprt_exec *exec);
/* Return 1 while a launch is in flight, 0 when it is done, and else a status. */
int hiprt_exec_busy(hiprt_exec *exec);
/* Return 1 if a launch on the stream now is ordered behind the last one, 0 if not, and else a status: an exec is on one
 * stream at a time (G6). */
int hiprt_exec_may_launch(hiprt_exec *exec, const hiprt_stream *stream);
int hiprt_exec_wait(hiprt_exec *exec);
/* The next three change an exec, which must not be busy. When one fails the exec must be discarded, since some of its
 * nodes may be changed already (G8). */

/* Make the exec carry the arguments of a recording of the same key, node by node where they differ. */
int hiprt_exec_patch(hiprt_exec *exec, hiprt_recorder *recorder, uint32_t *out_patched);
/* Do the same for all nodes by hipGraphExecUpdate. */
int hiprt_exec_update(hiprt_exec *exec, hiprt_recorder *recorder);
/* Give the listed nodes the addresses they have after the moves; the edges stay. */
int hiprt_exec_move(hiprt_exec *exec, uint32_t n_nodes, const uint32_t *nodes, uint32_t n_moves, const hiprt_move *moves);
/* Return how many nodes, and how many bytes of arguments, patches and updates have written so far. */
uint64_t hiprt_exec_updated_nodes(const hiprt_exec *exec);
uint64_t hiprt_exec_updated_bytes(const hiprt_exec *exec);
/* Return the number of nodes with a programmatic edge. */
uint32_t hiprt_exec_overlaps(const hiprt_exec *exec);
/* cffi end */

int hiprt_exec_device(const hiprt_exec *exec);
/* Make the exec, which must not be busy, carry the arguments of a recording of the same key, of which these nodes differ
 * from the one that it carries. When it fails the exec must be discarded (G8). */
int hiprt_exec_patch_nodes(hiprt_exec *exec, hiprt_recorder *recorder, const hiprt_changes *changes);
/* Give the recording that the exec carries, which has a table of pointers, the addresses that follow from it where memory
 * begins at `starts`, and these nodes of the exec the arguments that they have then. The exec must not be busy; when it
 * fails it must be discarded (G8), and the recording has the addresses all the same. */
int hiprt_exec_point(hiprt_exec *exec, hiprt_pointers *pointers, const uint64_t *starts, const hiprt_changes *changes);
/* Return the recorder whose arguments an exec carries. */
hiprt_recorder *hiprt_exec_recorder(const hiprt_exec *exec);
