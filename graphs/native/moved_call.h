/* Moved calls: a call of a kept step with arrays that have lain there before, whose exec is patched and launched without
 * Python code.
 *
 * It has the ladder's lock from its beginning to its end, as Python code has that patches, and the exec's nodes are its own
 * from hiprt_py_may_move on, which the step sees to. Called with the GIL held, but for hiprt_py_move. */
#pragma once
#include "objects.h" /* first: Python.h says so */

#include "ladder.h"

/* One call. Its objects are its own. */
typedef struct {
  PyObject *moves;             /* what the step was armed with; NULL where only Python can make the call */
  PyObject *arrays, *addresses; /* the arguments: a list of its own, and the words where they lie */
  PyObject *target, *move;     /* the Placement, and the Move that leads there */
  PyObject *gone[3];           /* what was replaced: dropping it may run code that calls the step */
  hiprt_ladder *ladder;
  const hiprt_rules *rules;
  const uint32_t *nodes;
  const hiprt_move *ranges;
  uint32_t n_nodes, n_ranges;
  uint64_t bytes;
  double seconds;
} hiprt_py_moved;

/* Begin a call, if its arguments are arrays of the forms that the kept call has, and nobody has the ladder's lock. `moves` is
 * what Ladder.bounds returns. Whether it has begun; hiprt_py_end_moved comes in any case. */
int hiprt_py_begin_moved(hiprt_py_moved *call, PyObject *moves, PyObject *args);
/* Whether the exec may be patched: its arrays have lain there and come from where they are now, and it stays within its
 * budget (G7). */
int hiprt_py_may_move(hiprt_py_moved *call, hiprt_exec *exec);
/* Patch the exec; a status. Without the GIL. */
int hiprt_py_move(hiprt_py_moved *call, hiprt_exec *exec);
/* Note that the exec carries the arrays. */
void hiprt_py_carry(hiprt_py_moved *call);
/* Count the patch. An exception stays as it is. */
void hiprt_py_count_moved(hiprt_py_moved *call);
/* Let go of the lock, and of all that the call has. An exception stays as it is. */
void hiprt_py_end_moved(hiprt_py_moved *call);
