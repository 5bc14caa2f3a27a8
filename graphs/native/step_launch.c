#include "step_launch.h"

#include <stdio.h>
#include <string.h>

#include "eager.h"
#include "status.h"

void hiprt_step_name_first(const hiprt_recorder *recorder, hiprt_outcome *out) {
  hiprt_node n;
  if (!out->changed || hiprt_recorder_node(recorder, out->first, &n) || !n.name) return;
  size_t size = strlen(n.name);
  if (size >= sizeof out->node) size = sizeof out->node - 1;
  memcpy(out->node, n.name, size);
  out->node[size] = 0;
}

static int run_eagerly(hiprt_step *step, hiprt_recorder *recorder, hiprt_stream *stream, hiprt_outcome *out, int *out_ran) {
  out->rung = HIPRT_EAGER;
  const int status = hiprt_recorder_run(recorder, stream, out_ran);
  if (!status) {
    step->stats.rungs[HIPRT_EAGER]++;
    hiprt_step_remember(step, recorder, 0);
  }
  return status;
}

int hiprt_step_fall(hiprt_step *step, int failure, hiprt_recorder *recorder, hiprt_stream *stream, hiprt_outcome *out,
                    int *out_ran) {
  hiprt_ladder_discard(step->ladder, hiprt_recorder_key(recorder));
  hiprt_step_remember(step, 0, 0);
  if (*out_ran) return failure;
  /* What was seen to lose a change gets no more of them. */
  if (failure == HIPRT_E_STALE) step->rules.rungs &= ~(1u << HIPRT_PATCH | 1u << HIPRT_UPDATE);
  snprintf(out->reason, sizeof out->reason, "%.40s: %.16s %d %.80s", hiprt_failure_call(), hiprt_status_name(failure),
           failure, hiprt_failure_detail());
  return run_eagerly(step, recorder, stream, out, out_ran);
}

int hiprt_step_launch(hiprt_step *step, hiprt_recorder *recorder, hiprt_stream *stream, hiprt_outcome *out, int *out_ran) {
  hiprt_choice choice;
  if (hiprt_recorder_is_broken(recorder))
    return hiprt_fail(HIPRT_E_MEMORY, "hiprt_step_end", "a node could not be recorded, and nothing is launched");
  out->nodes = hiprt_recorder_size(recorder);
  out->rung = HIPRT_EAGER;
  if (!out->nodes) return 0;
  if (!(step->rules.rungs >> HIPRT_INSTANTIATE & 1)) {
    snprintf(out->reason, sizeof out->reason, "the rules allow no graph");
    return run_eagerly(step, recorder, stream, out, out_ran);
  }
  int status = hiprt_ladder_find(step->ladder, recorder, stream, &step->rules, &choice);
  step->stats.waited += choice.waited != 0;
  step->stats.replaced += choice.replaced;
  step->stats.topologies += choice.is_new;
  out->changed = choice.is_new ? 0 : choice.changed;
  out->first = choice.first;
  out->seconds = choice.seconds;
  hiprt_step_name_first(recorder, out);
  if (!status) status = hiprt_exec_launch(choice.exec, stream, 1, out_ran);
  if (status) return hiprt_step_fall(step, status, recorder, stream, out, out_ran);
  memcpy(out->reason, choice.reason, sizeof out->reason);
  out->rung = choice.rung;
  step->stats.rungs[choice.rung]++;
  if (choice.rung == HIPRT_PATCH) step->stats.patched += choice.differing;
  hiprt_step_remember(step, recorder, choice.exec);
  return 0;
}

int hiprt_step_launch_last(hiprt_step *step, hiprt_stream *stream, hiprt_outcome *out, int *out_ran) {
  out->nodes = hiprt_recorder_size(step->last);
  if (!step->exec) {
    snprintf(out->reason, sizeof out->reason, "it ran eagerly before");
    return run_eagerly(step, step->last, stream, out, out_ran);
  }
  int status = hiprt_exec_may_launch(step->exec, stream);
  if (!status) status = hiprt_exec_wait(step->exec);
  else if (status == 1) status = 0;
  if (!status) status = hiprt_exec_launch(step->exec, stream, 0, out_ran);
  if (!status) {
    step->stats.rungs[HIPRT_REPLAY]++;
    return 0;
  }
  hiprt_recorder *recorder = step->last;
  hiprt_recorder_retain(recorder);
  status = hiprt_step_fall(step, status, recorder, stream, out, out_ran);
  hiprt_recorder_release(recorder);
  return status;
}

int hiprt_step_again(hiprt_step *step, hiprt_stream *stream, hiprt_outcome *out_outcome, int *out_ran) {
  hiprt_outcome outcome = {0};
  int ran = 0;
  int status = hiprt_step_take(step, "hiprt_step_again");
  if (status) return status;
  status = step->last ? hiprt_step_launch_last(step, stream, &outcome, &ran)
                      : hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_step_again", "the step has launched nothing yet");
  return hiprt_step_finish(step, status, &outcome, ran, out_outcome, out_ran);
}

