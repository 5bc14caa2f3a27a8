#include "order.h"

#include <stdlib.h>
#include <string.h>

#include "capture.h"
#include "lookout.h"
#include "status.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER;
hiprt_stream *_Atomic hiprt_order_only;
static hiprt_stream several; /* what hiprt_order_only is once there are two streams */
static hiprt_use alone;      /* what the only stream had done when the second came */

int hiprt_order_is_on(void) { return atomic_load(&hiprt_order_only) == &several; }

int hiprt_uses_create(int is_new, hiprt_uses **out_uses) {
  hiprt_uses *uses = *out_uses = calloc(1, sizeof *uses);
  if (!uses) return hiprt_fail(HIPRT_E_MEMORY, "hiprt_uses_create", 0);
  atomic_init(&uses->references, 1);
  uses->is_known = is_new && hiprt_order_is_on();
  return 0;
}

void hiprt_uses_retain(hiprt_uses *uses) { atomic_fetch_add_explicit(&uses->references, 1, memory_order_relaxed); }

static void forget_readers(hiprt_uses *uses) {
  for (uint32_t i = 0; i < uses->n_readers; i++) hiprt_stream_release(uses->readers[i].stream);
  uses->n_readers = 0;
}

void hiprt_uses_release(hiprt_uses *uses) {
  if (!uses || atomic_fetch_sub_explicit(&uses->references, 1, memory_order_acq_rel) != 1) return;
  forget_readers(uses);
  hiprt_stream_release(uses->writer.stream);
  free(uses->readers);
  free(uses);
}

static int is_done(const hiprt_use *use) {
  return !use->stream || use->serial <= atomic_load_explicit(&use->stream->done, memory_order_acquire);
}

/* Hold a stream back until an event has happened; where the device cannot, the host waits. */
static int put_wait(hiprt_stream *stream, hipEvent_t event) {
  HIPRT_TRY(hipSetDevice, stream->device);
  if (!stream->is_closed && !hiprt_is_capturing(stream->handle) &&
      !hiprt_hip.hipStreamWaitEvent(stream->handle, event, 0))
    return 0;
  return hiprt_wait_for_event(event);
}

/* Record the next of a stream's marks behind all that it has. */
static hipEvent_t put_mark_with(hiprt_stream *stream, int is_lasting) {
  const uint32_t at = stream->next_mark % HIPRT_MARKS;
  hipEvent_t *event = stream->marks + at;
  if (hiprt_hip.hipSetDevice(stream->device) || hiprt_is_capturing(stream->handle)) return 0;
  if (!*event && hiprt_hip.hipEventCreateWithFlags(event, hipEventDisableTiming)) {
    *event = 0;
    return 0;
  }
  stream->marked[at] = 0;
  if (is_lasting ? hiprt_lookout_record(stream->device, stream->handle, *event)
                 : hiprt_hip.hipEventRecord(*event, stream->handle))
    return 0;
  stream->marked[at] = stream->serial;
  stream->next_mark++;
  return *event;
}

static hipEvent_t put_mark(hiprt_stream *stream) { return put_mark_with(stream, 0); }

/* Put a mark that others can wait for while the stream is captured, instead of those before. */
static void put_lasting_mark(hiprt_stream *stream) {
  if (!put_mark_with(stream, 1)) return;
  const uint32_t kept = (stream->next_mark - 1) % HIPRT_MARKS;
  for (uint32_t i = 0; i < HIPRT_MARKS; i++)
    if (i != kept) stream->marked[i] = 0;
}

/* Return the earliest mark behind a submission; NULL if there is none. */
static hipEvent_t find_mark(const hiprt_stream *stream, uint64_t serial, uint64_t *out_reached) {
  hipEvent_t found = 0;
  for (uint32_t i = 0; i < HIPRT_MARKS; i++)
    if (stream->marked[i] >= serial && (!found || stream->marked[i] < *out_reached)) {
      found = stream->marks[i];
      *out_reached = stream->marked[i];
    }
  return found;
}

/* Return the entry of what a stream has waited for; the one that is replaced next if there is none. */
static hiprt_seen *seen_of(hiprt_stream *stream, const hiprt_stream *other) {
  for (uint32_t i = 0; i < HIPRT_SEEN; i++)
    if (stream->seen[i].number == other->number) return stream->seen + i;
  hiprt_seen *replaced = stream->seen + stream->next_seen++ % HIPRT_SEEN;
  *replaced = (hiprt_seen){other->number, 0};
  return replaced;
}

/* Make a stream wait for the work of a stream that is closed. */
static int wait_for_closed(hiprt_stream *stream, hiprt_stream *other) {
  if (other->last) return put_wait(stream, other->last);
  if (other->is_lost) {
    /* Nobody knows whether its handle is still valid. */
    int status = hiprt_wait_for_device(other->device);
    if (status) return status;
  }
  atomic_store_explicit(&other->done, UINT64_MAX, memory_order_release);
  return 0;
}

static int wait_for_open(hiprt_stream *stream, hiprt_stream *other, uint64_t serial, uint64_t *out_reached) {
  hipEvent_t event = find_mark(other, serial, out_reached);
  if (!event) {
    event = put_mark(other);
    *out_reached = other->serial;
  }
  stream->has_waited = 1;
  if (event) return put_wait(stream, event);
  if (hiprt_is_capturing(other->handle))
    return hiprt_fail(HIPRT_E_RECORDING, "hiprt_order",
                      "the array was used last on a stream that is being captured: end the capture before another stream uses it");
  return hiprt_wait_for_stream(other->handle);
}

static int wait_for(hiprt_stream *stream, const hiprt_use *use) {
  hiprt_stream *other = use->stream;
  if (other == stream || is_done(use) || !hiprt_library_is_open()) return 0;
  hiprt_seen *seen = seen_of(stream, other);
  if (seen->serial >= use->serial) return 0;
  uint64_t reached = UINT64_MAX;
  pthread_mutex_lock(&other->lock);
  /* Two wrappers of one stream of somebody else. */
  const int is_same = other->handle == stream->handle && !other->is_closed && other->device == stream->device;
  int status = is_same             ? 0
               : other->is_closed ? wait_for_closed(stream, other)
                                   : wait_for_open(stream, other, use->serial, &reached);
  pthread_mutex_unlock(&other->lock);
  if (!status && !is_same) seen->serial = reached;
  return status;
}

static void set(hiprt_use *use, hiprt_stream *stream, uint64_t serial) {
  if (use->stream != stream) {
    hiprt_stream_retain(stream);
    hiprt_stream_release(use->stream);
    use->stream = stream;
  }
  use->serial = serial;
}

/* What was done before there were two streams was not noted. */
static void know(hiprt_uses *uses) {
  if (!uses->is_known) set(&uses->writer, alone.stream, alone.serial);
  uses->is_known = 1;
}

static int wait_for_all(hiprt_stream *stream, hiprt_uses *uses, uint32_t access) {
  know(uses);
  int status = wait_for(stream, &uses->writer);
  for (uint32_t i = 0; !status && access & HIPRT_WRITE && i < uses->n_readers; i++)
    status = wait_for(stream, uses->readers + i);
  return status;
}

/* Learn whether the work of a closed stream is done: nobody synchronizes that stream any more. */
static void learn_done(hiprt_stream *stream) {
  pthread_mutex_lock(&stream->lock);
  if (stream->is_closed && !stream->is_lost && hiprt_library_is_open() &&
      (!stream->last || !hiprt_ask_event(stream->last)))
    atomic_store_explicit(&stream->done, UINT64_MAX, memory_order_release);
  pthread_mutex_unlock(&stream->lock);
}

static void drop_done(hiprt_uses *uses) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < uses->n_readers; i++) {
    if (!is_done(uses->readers + i)) learn_done(uses->readers[i].stream);
    if (is_done(uses->readers + i))
      hiprt_stream_release(uses->readers[i].stream);
    else
      uses->readers[kept++] = uses->readers[i];
  }
  uses->n_readers = kept;
}

static void note_reader(hiprt_uses *uses, hiprt_stream *stream) {
  for (uint32_t i = 0; i < uses->n_readers; i++)
    if (uses->readers[i].stream == stream) {
      uses->readers[i].serial = stream->serial;
      return;
    }
  drop_done(uses);
  if (uses->n_readers == uses->capacity) {
    const uint32_t capacity = uses->capacity ? 2 * uses->capacity : 2;
    hiprt_use *readers = realloc(uses->readers, capacity * sizeof *readers);
    if (!readers) {
      hiprt_wait_for_stream(stream->handle); /* what is done needs no note */
      return;
    }
    uses->readers = readers;
    uses->capacity = capacity;
  }
  hiprt_use *reader = uses->readers + uses->n_readers++;
  *reader = (hiprt_use){0, 0};
  set(reader, stream, stream->serial);
}

static void note(hiprt_stream *stream, const hiprt_touch *touches, uint32_t count) {
  stream->serial++;
  for (uint32_t i = 0; i < count; i++) {
    hiprt_uses *uses = touches[i].uses;
    know(uses);
    if (touches[i].access & HIPRT_WRITE) {
      forget_readers(uses);
      set(&uses->writer, stream, stream->serial);
    } else {
      note_reader(uses, stream);
    }
  }
  /* What was handed over once is handed over again: a mark lets the next stream wait for this and no more. */
  if (stream->has_waited) {
    pthread_mutex_lock(&stream->lock);
    if (!stream->is_closed) put_mark(stream);
    pthread_mutex_unlock(&stream->lock);
  }
  stream->has_waited = 0;
}

/* A fork waits until no thread submits, so that the notes of the child are whole. */
static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }
static void watch_forks(void) { pthread_atfork(before_fork, after_fork, after_fork); }

/* Make a stream the only one, if there is none. Whether there is another. */
static int claim(hiprt_stream *stream) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch_forks);
  hiprt_stream *only = atomic_load(&hiprt_order_only);
  if (only) return only != stream;
  hiprt_stream_retain(stream); /* for ever: no other stream may come to lie at its address */
  atomic_store(&hiprt_order_only, stream);
  return 0;
}

static void turn_on(void) {
  hiprt_stream *first = atomic_load(&hiprt_order_only);
  if (first == &several) return;
  alone = (hiprt_use){first, ++first->serial};
  atomic_store(&hiprt_order_only, &several);
}

/* Wait while another thread has the stream captured. The caller holds the mutex, which is released meanwhile. */
static void wait_until_open(hiprt_stream *stream) {
  while (stream->closed_by && stream->closed_by != hiprt_this_thread())
    pthread_cond_wait(&opened, &lock);
}

int hiprt_order_begin(hiprt_stream *stream, const hiprt_touch *touches, uint32_t count) {
  int status = 0;
  pthread_mutex_lock(&lock);
  wait_until_open(stream);
  if (claim(stream)) {
    turn_on();
    for (uint32_t i = 0; i < count && !status; i++) status = wait_for_all(stream, touches[i].uses, touches[i].access);
  }
  if (status) pthread_mutex_unlock(&lock);
  return status;
}

void hiprt_order_end(hiprt_stream *stream, const hiprt_touch *touches, uint32_t count) {
  if (hiprt_order_is_on()) note(stream, touches, count);
  pthread_mutex_unlock(&lock);
}

void hiprt_order_note(hiprt_stream *stream, const hiprt_touch *touches, uint32_t count) {
  pthread_mutex_lock(&lock);
  hiprt_order_end(stream, touches, count);
}

int hiprt_order_next(hiprt_stream *stream, hiprt_uses *uses, uint32_t access) {
  if (!hiprt_order_is_needed(stream)) return 0;
  const hiprt_touch touch = {uses, access};
  int status = hiprt_order_begin(stream, &touch, 1);
  if (!status) hiprt_order_end(stream, &touch, 1);
  return status;
}

void hiprt_order_give(hiprt_stream *stream, hiprt_uses *uses) {
  pthread_mutex_lock(&lock);
  /* What comes first of all makes its stream the only one, and is not noted. */
  uses->is_known = atomic_load(&hiprt_order_only) != 0;
  if (uses->is_known && stream->serial) set(&uses->writer, stream, stream->serial);
  pthread_mutex_unlock(&lock);
}

int hiprt_order_take_back(hiprt_stream *stream, hiprt_uses *uses) {
  if (hiprt_is_forked || !hiprt_order_is_on() || !hiprt_library_is_open()) return 0;
  pthread_mutex_lock(&lock);
  int status = wait_for_all(stream, uses, HIPRT_WRITE);
  stream->has_waited = 0;
  pthread_mutex_unlock(&lock);
  return status;
}

void hiprt_order_expect(hiprt_stream *stream) {
  if (!hiprt_order_is_needed(stream) || hiprt_order_is_on() || !hiprt_library_is_open()) return;
  pthread_mutex_lock(&lock);
  if (claim(stream)) turn_on();
  pthread_mutex_unlock(&lock);
}

/* Return an event behind the work that a stream has so far, also while another thread has it captured; NULL if none can be
 * recorded. */
static hipEvent_t mark(hiprt_stream *stream) {
  hipEvent_t event = 0;
  uint64_t reached = 0;
  pthread_mutex_lock(&lock);
  if (stream->closed_by && stream->closed_by != hiprt_this_thread()) event = find_mark(stream, stream->serial, &reached);
  if (!event) {
    wait_until_open(stream);
    pthread_mutex_lock(&stream->lock);
    if (!stream->is_closed) event = put_mark(stream);
    pthread_mutex_unlock(&stream->lock);
  }
  pthread_mutex_unlock(&lock);
  return event;
}

/* A stream that is captured at times may not be asked itself: a capture that another thread begins meanwhile would end. */
int hiprt_stream_synchronize(hiprt_stream *stream) {
  if (hiprt_stream_records(stream))
    return hiprt_fail(HIPRT_E_RECORDING, "hiprt_stream_synchronize", "a step that is being recorded has not run yet");
  int status = hiprt_stream_ready(stream, "hiprt_stream_synchronize");
  if (status) return status;
  const uint64_t serial = atomic_load(&stream->serial);
  hipEvent_t event = atomic_load(&stream->is_captured) ? mark(stream) : 0;
  if (!event)
    HIPRT_TRY(hipStreamSynchronize, stream->handle);
  else if ((status = hiprt_wait_for_event(event)))
    return status;
  unsigned long long done = atomic_load(&stream->done);
  while (done < serial && !atomic_compare_exchange_weak(&stream->done, &done, serial)) continue;
  return 0;
}

void hiprt_order_close(hiprt_stream *stream) {
  pthread_mutex_lock(&lock);
  atomic_store(&stream->is_captured, 1);
  claim(stream);
  turn_on();
  /* Others that come to wait for the stream's work so far cannot ask for an event then. */
  pthread_mutex_lock(&stream->lock);
  if (!stream->is_closed && stream->serial) put_lasting_mark(stream);
  pthread_mutex_unlock(&stream->lock);
  stream->closed_by = hiprt_this_thread();
  pthread_mutex_unlock(&lock);
}

void hiprt_order_open(hiprt_stream *stream) {
  pthread_mutex_lock(&lock);
  stream->closed_by = 0;
  pthread_cond_broadcast(&opened);
  pthread_mutex_unlock(&lock);
}
