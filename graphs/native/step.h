/* Steps without Python: what hiprt.h says of them, and what the files that do it share.
 *
 * A step owns its ladder, and references to what it launched last. Its lock is held while a thread records, and from the
 * choice of an exec to its launch; the functions below, but for the first two, are called with it. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>

#include "ladder.h"
#include "moved_arrays.h"
#include "stream.h"

struct hiprt_step {
  char name[HIPRT_OF_KERNEL];
  hiprt_rules rules;
  hiprt_ladder *ladder;
  pthread_mutex_t lock;
  atomic_uintptr_t owner; /* the thread that records; 0: none does, and the next four are not set */
  hiprt_recorder *recorder;
  hiprt_stream *stream; /* that records */
  int is_capturing;
  int is_settled;       /* what is recorded has the addresses of its intermediates */
  hiprt_recorder *last; /* what was launched last, and by which exec; NULL: it ran eagerly */
  hiprt_exec *exec;
  hiprt_recorder *before;     /* what was launched before that, where it is another recording; else NULL */
  hiprt_outcome told;         /* how `last` was launched */
  hiprt_placement *placement; /* where the buffers of `last` are; NULL until some move */
  hiprt_step_stats stats;
};

/* Take the lock; `call` is named in a failure. */
int hiprt_step_take(hiprt_step *step, const char *call);
/* Whether this thread records the step; any thread may ask. */
int hiprt_step_is_recording(const hiprt_step *step);
/* Remember what was launched, which hiprt_step_again launches again; NULL: nothing can be. */
void hiprt_step_remember(hiprt_step *step, hiprt_recorder *recorder, hiprt_exec *exec);
/* Give the caller what it asked for, and give up the lock. Returns `status`. */
int hiprt_step_finish(hiprt_step *step, int status, const hiprt_outcome *outcome, int ran, hiprt_outcome *out_outcome,
                      int *out_ran);
