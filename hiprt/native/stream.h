/* A HIP stream, its device, and the recorder that takes its work while it records. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>

#include "hiprt_core.h"
#include "library.h"

struct hiprt_stream {
  hipStream_t handle;
  int device;
  hiprt_recorder *recorder;
  uint64_t launches; /* kernels and graphs handed to HIP; copies and fills are not counted */
  atomic_uint references;
  int is_own;           /* the handle is valid until it is closed */
  pthread_mutex_t lock; /* of the rest: one thread may close what another asks about */
  int is_closed;
  hipEvent_t last; /* behind the work of one that is closed; NULL: that is done */
};

void hiprt_stream_retain(hiprt_stream *stream);
/* Record *event behind the work that is on an own stream by now. Of one that is closed, *event becomes the event behind
 * all of it, which is the stream's. NULL: the work is done. HIPRT_E_RECORDING: the stream is being captured, and cannot
 * be asked before that has ended. */
int hiprt_stream_fence(hiprt_stream *stream, hipEvent_t *event);
/* Whether an event recorded now would become a part of a capture, and end it when it is asked. */
int hiprt_is_capturing(hipStream_t stream);

/* Launch eagerly what a payload describes (kernel.h); the stream must not record. */
int hiprt_launch_payload(hiprt_stream *stream, const hiprt_kernel *kernel, const char *payload);
