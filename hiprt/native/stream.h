/* Streams: a HIP stream with its device, and what takes its work instead of HIP while it records.
 *
 * A stream belongs to one thread at a time, but for what its lock guards. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "kernel.h"
#include "library.h"

/* cffi begin */
typedef struct hiprt_stream hiprt_stream;

hiprt_stream *hiprt_stream_create(uint64_t handle, int device);
/* Give up a reference; the HIP stream stays. */
void hiprt_stream_release(hiprt_stream *stream);
/* Promise that the handle stays valid until hiprt_stream_close, which comes before the HIP stream is destroyed. */
void hiprt_stream_own(hiprt_stream *stream);
void hiprt_stream_close(hiprt_stream *stream);
/* Let HIP have the stream's work again after a recorder took it. */
void hiprt_stream_stop(hiprt_stream *stream);
int hiprt_stream_synchronize(hiprt_stream *stream);
/* Return the number of kernels and graphs handed to HIP so far; copies and fills are not counted. */
uint64_t hiprt_stream_launches(const hiprt_stream *stream);

/* The next four queue work, or record it as a node while the stream records. */

/* The payload has the kernel's size and lies at a multiple of 16. */
int hiprt_launch(hiprt_stream *stream, hiprt_kernel *kernel, const char *payload, uint32_t nbytes);
/* kind: a hipMemcpyKind. Only copies within the device can be recorded. */
int hiprt_copy(hiprt_stream *stream, uint64_t dst, uint64_t src, uint64_t nbytes, int kind);
/* Fill count elements of width 1, 2 or 4 bytes. */
int hiprt_fill(hiprt_stream *stream, uint64_t dst, uint32_t value, uint32_t width, uint64_t count);
/* Order everything after it behind everything before it: for work that declares nothing. */
int hiprt_barrier(hiprt_stream *stream);
/* cffi end */

/* How a recorder takes a stream's work. */
typedef struct {
  int (*launch)(void *recorder, hiprt_kernel *kernel, const char *payload);
  int (*copy)(void *recorder, uint64_t dst, uint64_t src, uint64_t nbytes);
  int (*fill)(void *recorder, uint64_t dst, uint32_t value, uint32_t width, uint64_t count);
  int (*barrier)(void *recorder);
} hiprt_recorder_calls;

struct hiprt_stream {
  hipStream_t handle;
  int device;
  void *recorder; /* NULL: the stream does not record */
  const hiprt_recorder_calls *calls;
  uint64_t recording; /* the recorder's number, which no other recording of the process has */
  uint64_t launches;
  atomic_uint references;
  int is_own;           /* the handle is valid until the stream is closed */
  pthread_mutex_t lock; /* guards what follows: one thread may close what another asks about */
  int is_closed;
  hipEvent_t last; /* recorded behind the work of a closed stream; NULL: that work is done */
};

void hiprt_stream_retain(hiprt_stream *stream);
/* Give the stream's work to a recorder until hiprt_stream_stop. */
int hiprt_stream_start(hiprt_stream *stream, const hiprt_recorder_calls *calls, void *recorder, uint64_t recording);
/* Record *event behind the work that is on an own stream by now. For a closed stream, *event becomes the event behind
 * all of its work, which belongs to the stream. NULL: the work is done. HIPRT_E_RECORDING: the stream is being
 * captured, and cannot be asked before that has ended. */
int hiprt_stream_fence(hiprt_stream *stream, hipEvent_t *event);
/* Whether a launch that failed with this status is known to have queued nothing: an argument or the call itself was
 * refused. What fails with any other status may have run, in whole or in part. */
int hiprt_is_refused(int status);
/* Launch a payload eagerly; the stream must not record. */
int hiprt_launch_payload(hiprt_stream *stream, const hiprt_kernel *kernel, const char *payload);
