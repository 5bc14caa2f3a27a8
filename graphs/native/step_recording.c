/* What a step records: launches and captured work of one thread, or a graph of other code, which are launched in the end. */
#include "arena.h"
#include "flatten.h"
#include "follow.h"
#include "intermediates.h"
#include "recording.h"
#include "status.h"
#include "step_launch.h"

static const char not_begun[] = "this thread has not begun the step";

int hiprt_step_begin(hiprt_step *step, hiprt_stream *stream) {
  int status = hiprt_step_take(step, "hiprt_step_begin");
  if (status) return status;
  status = hiprt_stream_is_open(stream, "hiprt_step_begin");
  hiprt_recorder *recorder = 0;
  if (!status) status = hiprt_recorder_create(HIPRT_EDGES_DATA, &recorder);
  if (!status && step->last) hiprt_recorder_follow(recorder, step->last);
  if (!status) status = hiprt_recorder_start(recorder, stream, 0);
  if (status) {
    hiprt_recorder_release(recorder);
    pthread_mutex_unlock(&step->lock);
    return status;
  }
  hiprt_stream_retain(stream);
  step->recorder = recorder;
  step->stream = stream;
  step->is_settled = 0;
  atomic_store(&step->owner, hiprt_this_thread());
  return 0;
}

int hiprt_step_capture(hiprt_step *step) {
  if (!hiprt_step_is_recording(step) || step->is_capturing)
    return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_step_capture", "it stands between hiprt_step_begin and hiprt_step_end, once");
  const int status = hiprt_flatten_begin(step->recorder, step->stream);
  step->is_capturing = !status;
  return status;
}

int hiprt_step_captured(hiprt_step *step, uint32_t n_ranges, const uint64_t *ranges, const uint8_t *access) {
  uint32_t nodes;
  if (!hiprt_step_is_recording(step) || !step->is_capturing)
    return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_step_captured", "hiprt_step_capture comes first");
  step->is_capturing = 0;
  return hiprt_flatten_end(step->recorder, step->stream, n_ranges, (const hiprt_range *)ranges, access, !n_ranges, 0, 0,
                           &nodes);
}

int hiprt_step_plan(hiprt_step *step, uint32_t count, const hiprt_intermediate *intermediates, uint64_t *out_offsets,
                    hiprt_plan *out_plan) {
  if (!hiprt_step_is_recording(step)) return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_step_plan", not_begun);
  return hiprt_intermediates_plan(step->recorder, count, intermediates, out_offsets, out_plan);
}

int hiprt_step_settle(hiprt_step *step, hiprt_arena *arena) {
  int has_grown;
  if (!hiprt_step_is_recording(step) || step->is_capturing || step->is_settled)
    return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_step_settle", "it stands between hiprt_step_begin and hiprt_step_end, once");
  const int status = hiprt_arena_settle(arena, step, step->recorder, step->stream, &has_grown);
  step->is_settled = !status;
  if (has_grown) hiprt_step_remember(step, 0, 0); /* the memory of that launch is the pool's again */
  return status;
}

/* End the recording, whose recorder the caller gets, and keep the lock. */
static hiprt_recorder *stop(hiprt_step *step) {
  hiprt_recorder *recorder = step->recorder;
  if (step->is_capturing) hiprt_flatten_drop(recorder, step->stream);
  step->is_capturing = 0;
  hiprt_stream_stop(step->stream);
  hiprt_recorder_end(recorder);
  atomic_store(&step->owner, 0);
  step->recorder = 0;
  return recorder;
}

void hiprt_step_cancel(hiprt_step *step) {
  if (hiprt_is_forked || !hiprt_step_is_recording(step)) return;
  hiprt_recorder_release(stop(step));
  hiprt_stream_release(step->stream);
  step->stream = 0;
  pthread_mutex_unlock(&step->lock);
}

int hiprt_step_end(hiprt_step *step, hiprt_outcome *out_outcome, int *out_ran) {
  hiprt_outcome outcome = {0};
  int ran = 0;
  if (!hiprt_step_is_recording(step)) return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_step_end", not_begun);
  hiprt_recorder *recorder = stop(step);
  hiprt_stream *stream = step->stream;
  step->stream = 0;
  const int status = hiprt_step_launch(step, recorder, stream, &outcome, &ran);
  hiprt_recorder_release(recorder);
  hiprt_stream_release(stream);
  return hiprt_step_finish(step, status, &outcome, ran, out_outcome, out_ran);
}

/* Give the nodes of a graph of other code: those launched last, where it is the same work. */
static int adopt(hiprt_step *step, hiprt_stream *stream, uint64_t graph, int is_given, hiprt_recorder **out_recorder) {
  if (step->last) hiprt_flatten_like(step->last, graph, stream->device, is_given, out_recorder);
  if (*out_recorder == step->last && step->last) hiprt_recorder_retain(step->last);
  if (*out_recorder) return 0;
  int status = hiprt_recorder_create(HIPRT_EDGES_DATA, out_recorder);
  if (!status) return hiprt_flatten_graph(*out_recorder, graph, stream->device, is_given);
  if (is_given) hiprt_hip.hipGraphDestroy((hipGraph_t)(uintptr_t)graph);
  return status;
}

int hiprt_step_adopt(hiprt_step *step, hiprt_stream *stream, uint64_t graph, int is_given, hiprt_outcome *out_outcome,
                     int *out_ran) {
  hiprt_outcome outcome = {0};
  int ran = 0, status = hiprt_step_take(step, "hiprt_step_adopt");
  if (status) {
    if (is_given && !hiprt_is_forked) hiprt_hip.hipGraphDestroy((hipGraph_t)(uintptr_t)graph);
    return status;
  }
  status = hiprt_stream_is_open(stream, "hiprt_step_adopt");
  if (!status && hiprt_stream_records(stream))
    status = hiprt_fail(HIPRT_E_RECORDING, "hiprt_step_adopt", "the stream is recording");
  hiprt_recorder *recorder = 0;
  if (!status)
    status = adopt(step, stream, graph, is_given, &recorder);
  else if (is_given)
    hiprt_hip.hipGraphDestroy((hipGraph_t)(uintptr_t)graph);
  if (!status) status = hiprt_step_launch(step, recorder, stream, &outcome, &ran);
  hiprt_recorder_release(recorder);
  return hiprt_step_finish(step, status, &outcome, ran, out_outcome, out_ran);
}

