#include "stream.h"

#include <stdio.h>
#include <stdlib.h>

#include "capture.h"
#include "lookout.h"
#include "status.h"

_Thread_local unsigned hiprt_thread_recordings __attribute__((tls_model("initial-exec")));

int hiprt_stream_create(uint64_t handle, int device, hiprt_stream **out_stream) {
  static atomic_ullong numbers;
  int count = 0;
  *out_stream = 0;
  /* A stream that is not HIP's, such as Metal's, has neither a handle nor a device. */
  const int is_missing = device < 0 ? handle != 0
                                    : hiprt_library_is_open() && !hiprt_is_forked &&
                                          !hiprt_hip.hipGetDeviceCount(&count) && device >= count;
  if (is_missing)
    return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_stream_create", "there is no such device");
  hiprt_stream *stream = *out_stream = calloc(1, sizeof *stream);
  if (!stream) return hiprt_fail(HIPRT_E_MEMORY, "hiprt_stream_create", 0);
  stream->handle = (hipStream_t)(uintptr_t)handle;
  stream->device = device;
  stream->number = atomic_fetch_add_explicit(&numbers, 1, memory_order_relaxed) + 1;
  stream->references = 1;
  pthread_mutex_init(&stream->lock, 0);
  return 0;
}

void hiprt_stream_retain(hiprt_stream *stream) { stream->references++; }

void hiprt_stream_release(hiprt_stream *stream) {
  if (!stream || --stream->references) return;
  if (atomic_load(&stream->owner)) hiprt_stream_stop(stream);
  if (stream->last) hiprt_hip.hipEventDestroy(stream->last);
  for (uint32_t i = 0; i < HIPRT_MARKS; i++)
    if (stream->marks[i]) hiprt_hip.hipEventDestroy(stream->marks[i]);
  pthread_mutex_destroy(&stream->lock);
  free(stream);
}

void hiprt_stream_own(hiprt_stream *stream) { stream->is_own = 1; }

/* Where the event cannot be recorded, wait for the work instead. */
static int record_or_wait(hiprt_stream *stream, hipEvent_t *event) {
  if (*event && !hiprt_hip.hipEventRecord(*event, stream->handle)) return 0;
  *event = 0;
  return hiprt_wait_for_stream(stream->handle);
}

/* Give the event behind all work of a closed stream. */
static int fence_closed(hiprt_stream *stream, hipEvent_t *event) {
  *event = stream->last;
  return stream->is_lost ? hiprt_wait_for_device(stream->device) : 0;
}

int hiprt_stream_fence(hiprt_stream *stream, int is_recorded, hipEvent_t *event) {
  int status = 0;
  pthread_mutex_lock(&stream->lock);
  if (stream->is_closed)
    status = fence_closed(stream, event);
  else if (hiprt_is_capturing(stream->handle))
    status = hiprt_fail(HIPRT_E_RECORDING, "hiprt_stream_fence", "the stream is being captured");
  else if (!is_recorded)
    status = record_or_wait(stream, event);
  pthread_mutex_unlock(&stream->lock);
  return status;
}

/* Record an event behind all work of a stream that may be destroyed next, and with it what an event of its own is asked
 * about; where that fails, wait for the work instead. */
static void put_last(hiprt_stream *stream) {
  hipEvent_t last = 0;
  if (!hiprt_hip.hipSetDevice(stream->device)) hiprt_hip.hipEventCreateWithFlags(&last, hipEventDisableTiming);
  if (last && !hiprt_lookout_record(stream->device, stream->handle, last)) {
    stream->last = last;
    return;
  }
  hiprt_wait_for_stream(stream->handle); /* if that fails, the work is done as well */
  if (last) hiprt_hip.hipEventDestroy(last);
}

void hiprt_stream_close(hiprt_stream *stream, int is_valid) {
  if (hiprt_is_forked) return;
  pthread_mutex_lock(&stream->lock);
  /* The other references are those of memory that it used, and of execs that do not know whether their last launch is
   * done. */
  if (!stream->is_closed && stream->references > 1) {
    if (!is_valid || hiprt_is_capturing(stream->handle))
      stream->is_lost = 1;
    else if (hiprt_ask_stream(stream->handle))
      put_last(stream);
  }
  stream->is_closed = 1;
  pthread_mutex_unlock(&stream->lock);
}

int hiprt_stream_is_captured(const hiprt_stream *stream) {
  return !atomic_load_explicit(&stream->is_stuck, memory_order_relaxed) && hiprt_is_capturing(stream->handle);
}

int hiprt_stream_destroy(const hiprt_stream *stream) {
  HIPRT_TRY(hipStreamDestroy, stream->handle);
  return 0;
}

uint64_t hiprt_stream_launches(const hiprt_stream *stream) {
  return atomic_load_explicit(&stream->launches, memory_order_relaxed);
}

int hiprt_stream_start(hiprt_stream *stream, const hiprt_recorder_calls *calls, void *recorder, uint64_t recording,
                       int is_shared) {
  uintptr_t nobody = 0, owner = is_shared ? HIPRT_EVERY_THREAD : hiprt_this_thread();
  if (!atomic_compare_exchange_strong(&stream->owner, &nobody, owner))
    return hiprt_fail(HIPRT_E_RECORDING, "hiprt_stream_start",
                      nobody == owner ? "this thread records on the stream already: end that recording first"
                                      : "another thread records on the stream: wait until it has ended, or record on "
                                        "a stream of your own");
  stream->calls = calls;
  stream->recorder = recorder;
  stream->recording = recording;
  hiprt_thread_recordings += !is_shared;
  return 0;
}

void hiprt_stream_stop(hiprt_stream *stream) {
  const uintptr_t owner = atomic_load(&stream->owner);
  if (owner == hiprt_this_thread()) hiprt_thread_recordings--;
  atomic_store(&stream->owner, 0);
}

int hiprt_stream_records(const hiprt_stream *stream) {
  const uintptr_t owner = atomic_load_explicit(&stream->owner, memory_order_acquire);
  return owner && (owner == HIPRT_EVERY_THREAD || owner == hiprt_this_thread());
}

int hiprt_stream_is_open(hiprt_stream *stream, const char *call) {
  if (atomic_load_explicit(&stream->is_closed, memory_order_relaxed))
    return hiprt_fail(HIPRT_E_CLOSED, call, "the stream is closed: work needs one that is open");
  if (!atomic_load_explicit(&stream->is_stuck, memory_order_relaxed)) return 0;
  if (hiprt_capture_drop(stream->handle))
    return hiprt_fail(HIPRT_E_RECORDING, call, "a capture on the stream failed and could not be ended: use another stream");
  atomic_store_explicit(&stream->is_stuck, 0, memory_order_relaxed);
  return 0;
}

int hiprt_stream_ready(hiprt_stream *stream, const char *call) {
  if (!hiprt_library_is_open()) return hiprt_fail(HIPRT_E_CLOSED, call, 0);
  int status = hiprt_stream_is_open(stream, call);
  if (status) return status;
  HIPRT_TRY(hipSetDevice, stream->device);
  return 0;
}

int hiprt_is_refused(int status) {
  /* CLR queues the nodes of a graph one after the other, and some of its versions go on behind one that failed. Memory
   * that runs out, for instance, therefore says nothing about the nodes before (hip_graph_internal.cpp, GraphExec::Run).
   * The statuses below are returned before anything is queued: nodes were checked when their graph was made. */
  switch (status) {
    case hipErrorInvalidValue:
    case hipErrorInvalidConfiguration:
    case hipErrorInvalidDevice:
    case hipErrorInvalidContext:
    case hipErrorInvalidHandle:
    case hipErrorContextIsDestroyed: return 1;
    default: return status < 0 || (status >= hipErrorStreamCaptureUnsupported && status <= hipErrorStreamCaptureWrongThread);
  }
}

/* Fail for a launch, and name the kernel: it may be one of many that run behind the call that launches a step. */
static int refuse_launch(const hiprt_kernel *kernel, const hipKernelNodeParams *p, int status) {
  char detail[sizeof kernel->name + 100];
  snprintf(detail, sizeof detail, "%s, grid %ux%ux%u of %ux%ux%u, %u bytes of shared memory", kernel->name, p->gridDim.x,
           p->gridDim.y, p->gridDim.z, p->blockDim.x, p->blockDim.y, p->blockDim.z, p->sharedMemBytes);
  return hiprt_fail(status, "hipModuleLaunchKernel", detail);
}

int hiprt_launch_payload(hiprt_stream *stream, const hiprt_kernel *kernel, const char *payload) {
  int status = hiprt_stream_ready(stream, "hiprt_launch");
  if (status) return status;
  void *cells[HIPRT_MAX_ARGS];
  hipKernelNodeParams p = hiprt_kernel_params(kernel, payload, cells);
  status = (int)hiprt_hip.hipModuleLaunchKernel(kernel->function, p.gridDim.x, p.gridDim.y, p.gridDim.z, p.blockDim.x,
                                                p.blockDim.y, p.blockDim.z, p.sharedMemBytes, stream->handle,
                                                p.kernelParams, p.extra);
  if (status) return refuse_launch(kernel, &p, status);
  atomic_fetch_add_explicit(&stream->launches, 1, memory_order_relaxed);
  return 0;
}

int hiprt_launch(hiprt_stream *stream, hiprt_kernel *kernel, const char *payload, uint32_t nbytes) {
  if (nbytes != kernel->payload_size)
    return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_launch", "the payload does not have the kernel's size");
  if (hiprt_stream_records(stream)) return stream->calls->launch(stream->recorder, kernel, payload);
  return hiprt_launch_payload(stream, kernel, payload);
}

int hiprt_launch_kernel(hiprt_stream *stream, hiprt_kernel *kernel, const hiprt_dims *dims, void *const *args,
                        const uint64_t *nbytes) {
  _Alignas(16) char payload[HIPRT_MOST_PAYLOAD];
  const int status = hiprt_kernel_pack(kernel, dims, args, nbytes, payload);
  return status ? status : hiprt_launch(stream, kernel, payload, kernel->payload_size);
}

/* Whether the end of memory, one past its last byte, is an address. */
static int has_end(uint64_t address, uint64_t nbytes) { return nbytes <= UINT64_MAX - address; }

static const char has_no_end[] = "the memory would end past the last address: an address or a size is wrong";

int hiprt_copy(hiprt_stream *stream, uint64_t dst, uint64_t src, uint64_t nbytes, int kind) {
  if (!has_end(dst, nbytes) || !has_end(src, nbytes)) return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_copy", has_no_end);
  if (hiprt_stream_records(stream)) {
    /* A host pointer in a node would be read again at every replay, long after its owner is gone. */
    if (kind != hipMemcpyDeviceToDevice)
      return hiprt_fail(HIPRT_E_RECORDING, "hiprt_copy", "a host copy cannot be part of a recorded step");
    return stream->calls->copy(stream->recorder, dst, src, nbytes);
  }
  int status = hiprt_stream_ready(stream, "hiprt_copy");
  if (status) return status;
  HIPRT_TRY(hipMemcpyAsync, (void *)(uintptr_t)dst, (const void *)(uintptr_t)src, nbytes, (hipMemcpyKind)kind,
            stream->handle);
  return 0;
}

int hiprt_fill(hiprt_stream *stream, uint64_t dst, uint32_t value, uint32_t width, uint64_t count) {
  if (width != 1 && width != 2 && width != 4)
    return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_fill", "width must be 1, 2 or 4");
  if (count > UINT64_MAX / width || !has_end(dst, count * width)) return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_fill", has_no_end);
  if (hiprt_stream_records(stream)) return stream->calls->fill(stream->recorder, dst, value, width, count);
  int status = hiprt_stream_ready(stream, "hiprt_fill");
  if (status) return status;
  hipDeviceptr_t at = (hipDeviceptr_t)(uintptr_t)dst;
  if (width == 1)
    HIPRT_TRY(hipMemsetD8Async, at, (unsigned char)value, count, stream->handle);
  else if (width == 2)
    HIPRT_TRY(hipMemsetD16Async, at, (unsigned short)value, count, stream->handle);
  else
    HIPRT_TRY(hipMemsetD32Async, at, (int)value, count, stream->handle);
  return 0;
}

int hiprt_barrier(hiprt_stream *stream) { return hiprt_stream_records(stream) ? stream->calls->barrier(stream->recorder) : 0; }
