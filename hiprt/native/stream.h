/* Streams: a HIP stream with its device, and what takes a thread's work on it instead of HIP while that records.
 *
 * Any thread may launch on a stream. A recording belongs to the thread that started it: what others launch on the stream
 * meanwhile goes to HIP at once. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "hiprt/hiprt.h"
#include "kernel.h"
#include "library.h"

/* cffi begin */
/* Whether what is put on the stream now is captured. */
int hiprt_stream_is_captured(const hiprt_stream *stream);
/* Destroy the HIP stream of one that is closed. */
int hiprt_stream_destroy(const hiprt_stream *stream);
/* Let HIP have the stream's work again after a recorder took it. */
void hiprt_stream_stop(hiprt_stream *stream);
/* Whether this thread records on the stream. */
int hiprt_stream_records(const hiprt_stream *stream);
/* Return the number of kernels and graphs handed to HIP so far; copies and fills are not counted. */
uint64_t hiprt_stream_launches(const hiprt_stream *stream);

/* Launch a payload, which has the kernel's size and lies at a multiple of 16, or record it as a node while the stream
 * records. */
int hiprt_launch(hiprt_stream *stream, hiprt_kernel *kernel, const char *payload, uint32_t nbytes);
/* cffi end */

struct hiprt_uses; /* in order.h */
/* How a recorder takes a stream's work. */
typedef struct {
  int (*launch)(void *recorder, hiprt_kernel *kernel, const char *payload);
  int (*copy)(void *recorder, uint64_t dst, uint64_t src, uint64_t nbytes);
  int (*fill)(void *recorder, uint64_t dst, uint32_t value, uint32_t width, uint64_t count);
  int (*barrier)(void *recorder);
  int (*touch)(void *recorder, struct hiprt_uses *uses, uint32_t access); /* memory, of which others may know */
} hiprt_recorder_calls;

#define HIPRT_MARKS 8
#define HIPRT_SEEN 32
#define HIPRT_EVERY_THREAD 1 /* the owner of a recording of all that is launched on a stream */

/* A submission to a stream, by its number; no stream: none. */
typedef struct {
  hiprt_stream *stream;
  uint64_t serial;
} hiprt_use;
/* Up to which submission another stream, by its number, has been waited for. */
typedef struct {
  uint64_t number, serial;
} hiprt_seen;

struct hiprt_stream {
  hipStream_t handle;
  int device;
  uint64_t number;         /* no other stream of the process has it */
  atomic_uintptr_t owner;  /* the thread that records, by hiprt_this_thread; 0: none; its are the next three */
  void *recorder;
  const hiprt_recorder_calls *calls;
  uint64_t recording; /* the recorder's number, which no other recording of the process has */
  atomic_ullong launches;
  atomic_uint references;
  int is_own;           /* the handle is valid until the stream is closed */
  pthread_mutex_t lock; /* guards what follows: one thread may close what another asks about */
  atomic_int is_closed; /* set with the lock held; launches read it without */
  int is_lost;          /* the handle may have become invalid before anybody asked what it still does */
  atomic_int is_captured; /* a step has captured it: it may be captured again while another thread waits for its work */
  atomic_int is_stuck;  /* a capture began on it that could not be ended; it is tried again before the next work */
  hipEvent_t last; /* recorded behind the work of a closed stream; NULL: that work is done, unless it is lost */
  /* The next are guarded by the mutex of order.h, but for `done`. */
  atomic_ullong serial, done; /* of the last submission that others may wait for, and the last known to be done */
  int has_waited;             /* its next submission waits for another stream */
  uintptr_t closed_by;        /* the thread, if any, for whose recording it is captured: others wait */
  hiprt_seen seen[HIPRT_SEEN];
  hipEvent_t marks[HIPRT_MARKS]; /* recorded behind some submissions */
  uint64_t marked[HIPRT_MARKS];  /* these; 0: none */
  uint32_t next_seen, next_mark;
};

void hiprt_stream_retain(hiprt_stream *stream);
/* Check that the library is open and the stream too, and choose its device: what each call of HIP on it begins with. */
int hiprt_stream_ready(hiprt_stream *stream, const char *call);
/* HIPRT_E_CLOSED if the stream is closed: its handle names nothing, which NVIDIA's driver does not survive.
 * HIPRT_E_RECORDING if a capture of ours is still open on it, which would take work and never run it. */
int hiprt_stream_is_open(hiprt_stream *stream, const char *call);
/* The number of streams on which this thread records. */
extern _Thread_local unsigned hiprt_thread_recordings __attribute__((tls_model("initial-exec")));
/* Return a number that no other thread has at the same time; never 0 or HIPRT_EVERY_THREAD. */
static inline uintptr_t hiprt_this_thread(void) { return (uintptr_t)&hiprt_thread_recordings; }
/* Give the work that this thread, or with is_shared every thread, puts on the stream to a recorder until
 * hiprt_stream_stop. */
int hiprt_stream_start(hiprt_stream *stream, const hiprt_recorder_calls *calls, void *recorder, uint64_t recording,
                       int is_shared);
/* Record *event behind the work that is on an own stream by now, unless it is recorded there already. For a closed stream,
 * *event becomes the event behind all of its work, which belongs to the stream. NULL: the work is done.
 * HIPRT_E_RECORDING: the stream is being captured, and neither it nor an event on it can be asked before that has ended. */
int hiprt_stream_fence(hiprt_stream *stream, int is_recorded, hipEvent_t *event);
/* Whether a launch that failed with this status is known to have queued nothing: an argument or the call itself was
 * refused. What fails with any other status may have run, in whole or in part. */
int hiprt_is_refused(int status);
/* Launch a payload eagerly; the stream must not record. */
int hiprt_launch_payload(hiprt_stream *stream, const hiprt_kernel *kernel, const char *payload);
