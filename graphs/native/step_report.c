/* What a step tells of its last launch: why it took its rung, its nodes, and whether they did what they do eagerly. */
#include "dump.h"
#include "explain.h"
#include "status.h"
#include "step.h"
#include "stream.h"
#include "verify.h"

/* Take the step to tell of what it launched last. */
static int take_launched(hiprt_step *step, const char *call) {
  int status = hiprt_step_take(step, call);
  if (status || step->last) return status;
  pthread_mutex_unlock(&step->lock);
  return hiprt_fail(HIPRT_E_ARGUMENT, call, "the step has launched nothing yet");
}

int hiprt_step_explain(hiprt_step *step, char *out_text, uint64_t room, uint64_t *out_size) {
  static const char *const rungs[] = {"replay", "patch", "update", "instantiate", "eager"};
  const int status = take_launched(step, "hiprt_step_explain");
  if (status) return status;
  const hiprt_outcome *told = &step->told;
  hiprt_text text = hiprt_text_begin(out_text, room);
  hiprt_text_add(&text, "%s", rungs[told->rung]);
  if (*told->reason) hiprt_text_add(&text, ": %s", told->reason);
  if (told->rung != HIPRT_REPLAY && step->before) {
    const uint64_t size = text.size;
    hiprt_text_add(&text, "; ");
    hiprt_explain(step->before, step->last, &text);
    if (text.size == size + 2) {
      text.size = size;
      if (size < room) out_text[size] = 0;
    }
  }
  if (out_size) *out_size = text.size + 1;
  pthread_mutex_unlock(&step->lock);
  return 0;
}

int hiprt_step_dump(hiprt_step *step, char *out_text, uint64_t room, uint64_t *out_size) {
  const int status = take_launched(step, "hiprt_step_dump");
  if (status) return status;
  hiprt_text text = hiprt_text_begin(out_text, room);
  hiprt_dump(step->last, step->name, &text);
  if (out_size) *out_size = text.size + 1;
  pthread_mutex_unlock(&step->lock);
  return 0;
}

/* Launch the last exec and compare it with its nodes; one that differs is dropped. */
static int verify(hiprt_step *step, hiprt_stream *stream, hiprt_mismatch *out, int *out_ran) {
  if (!step->exec) return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_step_verify", "it ran eagerly, and there is no graph to compare");
  int status = hiprt_stream_is_open(stream, "hiprt_step_verify");
  if (!status && hiprt_stream_records(stream))
    status = hiprt_fail(HIPRT_E_RECORDING, "hiprt_step_verify", "the stream is recording");
  if (!status) status = hiprt_exec_wait(step->exec);
  if (!status) status = hiprt_verify(step->exec, step->last, stream, out, out_ran);
  if (out->differs || (status && *out_ran)) {
    hiprt_recorder *recorder = step->last;
    hiprt_recorder_retain(recorder);
    hiprt_ladder_discard(step->ladder, hiprt_recorder_key(recorder));
    hiprt_step_remember(step, recorder, 0);
    hiprt_recorder_release(recorder);
  }
  return status;
}

int hiprt_step_verify(hiprt_step *step, hiprt_stream *stream, hiprt_mismatch *out_mismatch, int *out_ran) {
  hiprt_mismatch mismatch = {0};
  int ran = 0, status = take_launched(step, "hiprt_step_verify");
  if (out_ran) *out_ran = 0;
  if (status) return status;
  status = verify(step, stream, &mismatch, &ran);
  if (out_mismatch) *out_mismatch = mismatch;
  if (out_ran) *out_ran = ran;
  pthread_mutex_unlock(&step->lock);
  return status;
}
