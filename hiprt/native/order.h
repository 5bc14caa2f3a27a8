/* Order between streams (G13): work on memory waits for what other streams do there.
 *
 * Memory notes its last writer and the readers since, each as a stream and the number of a submission to it. No event
 * is made before another stream comes: then one is recorded behind what the first stream has by then, and the other
 * waits for it on the device. As long as one stream does all work, nothing is noted, and a launch pays for one
 * comparison.
 * A submission holds one mutex of the process from the look at the notes until it is made, so that what is noted can be
 * waited for. Python's lock is never waited for while it is held. */
#pragma once
#include <stdatomic.h>
#include <stdint.h>

#include "stream.h"

/* cffi begin */
/* Who works with a piece of memory. */
typedef struct hiprt_uses hiprt_uses;

/* is_new: nobody has used the memory before. */
int hiprt_uses_create(int is_new, hiprt_uses **out_uses);
void hiprt_uses_release(hiprt_uses *uses);
/* Make a stream wait as before work that does this (hiprt_access) with the memory, and note it, for work that others
 * put on the stream next. */
int hiprt_order_next(hiprt_stream *stream, hiprt_uses *uses, uint32_t access);
/* cffi end */

/* What a submission does with a piece of memory: hiprt_access. */
typedef struct {
  hiprt_uses *uses;
  uint32_t access;
} hiprt_touch;

struct hiprt_uses {
  atomic_uint references;
  int is_known; /* it is noted who used the memory; else the stream that was alone may have. Guarded as the next are */
  hiprt_use writer;   /* guarded by the mutex */
  hiprt_use *readers; /* since then */
  uint32_t n_readers, capacity;
  atomic_ullong recorder; /* the number of the recorder that listed it last, and where: a hint, which is checked */
  atomic_uint place;
};

void hiprt_uses_retain(hiprt_uses *uses);
/* The stream that has done all work so far; NULL before any, and no stream at all once there were two. */
extern hiprt_stream *_Atomic hiprt_order_only;
/* Whether there were two streams. */
int hiprt_order_is_on(void);
/* Whether a submission to the stream goes between hiprt_order_begin and hiprt_order_end. To ask again behind one that
 * did not tells of a second stream that came meanwhile; then hiprt_order_note is called. */
static inline int hiprt_order_is_needed(const hiprt_stream *stream) { return atomic_load(&hiprt_order_only) != stream; }
/* Make a stream wait for all that its next submission touches, and hold all other submissions. On failure nothing is
 * held. */
int hiprt_order_begin(hiprt_stream *stream, const hiprt_touch *touches, uint32_t count);
/* Note the submission, whether or not it could be made, and let others go on. */
void hiprt_order_end(hiprt_stream *stream, const hiprt_touch *touches, uint32_t count);
/* Note a submission that was made when there was one stream. */
void hiprt_order_note(hiprt_stream *stream, const hiprt_touch *touches, uint32_t count);
/* Note that new memory comes from a stream, whose work so far may be using it. */
void hiprt_order_give(hiprt_stream *stream, hiprt_uses *uses);
/* Order a stream, to which memory goes back, behind the work of all others there. Return a status. */
int hiprt_order_take_back(hiprt_stream *stream, hiprt_uses *uses);
/* Note that second streams are coming: a thread records on this one while others launch. */
void hiprt_order_expect(hiprt_stream *stream);
/* Let no thread but this one submit to a stream, which is about to be captured, until hiprt_order_open. */
void hiprt_order_close(hiprt_stream *stream);
void hiprt_order_open(hiprt_stream *stream);
