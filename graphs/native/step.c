#define _GNU_SOURCE
#include "step.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "status.h"

void hiprt_rules_default(hiprt_rules *out) {
  *out = (hiprt_rules){.rungs = HIPRT_RUNGS,
                       .slots = 4,
                       .keys = 64,
                       .fanout = 4,
                       .overlap = 0,
                       .budget_nodes = 10000,
                       .budget_bytes = 64 << 20};
}

hiprt_step *hiprt_step_create(const char *name, const hiprt_rules *rules) {
  hiprt_rules given;
  hiprt_rules_default(&given);
  if (rules) given = *rules;
  const int is_valid = given.slots && given.keys && given.fanout != 1 && given.budget_nodes && given.budget_bytes;
  if (!hiprt_library_is_open()) hiprt_fail(HIPRT_E_CLOSED, "hiprt_step_create", "hiprt_open comes first");
  else if (!is_valid) hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_step_create", "a rule is out of range");
  if (!hiprt_library_is_open() || !is_valid) return 0;
  hiprt_step *step = calloc(1, sizeof *step);
  if (!step || hiprt_ladder_create(&step->ladder)) {
    free(step);
    hiprt_fail(HIPRT_E_MEMORY, "hiprt_step_create", 0);
    return 0;
  }
  snprintf(step->name, sizeof step->name, "%s", name ? name : "step");
  step->rules = given;
  if (given.canary) hiprt_kernel_retain(given.canary);
  pthread_mutexattr_t kind;
  pthread_mutexattr_init(&kind);
  pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK);
  pthread_mutex_init(&step->lock, &kind);
  pthread_mutexattr_destroy(&kind);
  return step;
}

void hiprt_step_remember(hiprt_step *step, hiprt_recorder *recorder, hiprt_exec *exec) {
  if (recorder) hiprt_recorder_retain(recorder);
  if (exec) hiprt_exec_retain(exec);
  if (recorder != step->last) {
    hiprt_placement_release(step->placement);
    step->placement = 0;
  }
  if (step->last && recorder != step->last) {
    hiprt_recorder_release(step->before);
    step->before = step->last;
  } else {
    hiprt_recorder_release(step->last);
  }
  hiprt_exec_release(step->exec);
  step->last = recorder;
  step->exec = exec;
}

void hiprt_step_release(hiprt_step *step) {
  if (!step) return;
  hiprt_step_cancel(step);
  hiprt_step_remember(step, 0, 0);
  hiprt_recorder_release(step->before);
  hiprt_ladder_release(step->ladder);
  hiprt_kernel_release(step->rules.canary);
  pthread_mutex_destroy(&step->lock);
  free(step);
}

int hiprt_step_take(hiprt_step *step, const char *call) {
  if (hiprt_is_forked) return hiprt_fail(HIPRT_E_FORKED, call, 0);
  if (pthread_mutex_lock(&step->lock) != EDEADLK) return 0;
  return hiprt_fail(HIPRT_E_RECORDING, call, "this thread has begun the step: end it first");
}

int hiprt_step_is_recording(const hiprt_step *step) { return atomic_load(&step->owner) == hiprt_this_thread(); }

int hiprt_step_finish(hiprt_step *step, int status, const hiprt_outcome *outcome, int ran, hiprt_outcome *out_outcome,
                  int *out_ran) {
  if (!status) step->told = *outcome;
  if (out_outcome) *out_outcome = *outcome;
  if (out_ran) *out_ran = ran;
  pthread_mutex_unlock(&step->lock);
  return status;
}

void hiprt_step_count(hiprt_step *step, hiprt_step_stats *out_stats) {
  memset(out_stats, 0, sizeof *out_stats);
  if (hiprt_step_take(step, "hiprt_step_count")) return;
  *out_stats = step->stats;
  out_stats->execs = hiprt_ladder_execs(step->ladder, 0, 0);
  pthread_mutex_unlock(&step->lock);
}

