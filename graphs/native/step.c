#define _GNU_SOURCE
#include "step.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "arena.h"
#include "dump.h"
#include "eager.h"
#include "explain.h"
#include "flatten.h"
#include "moved_arrays.h"
#include "status.h"
#include "verify.h"

struct hiprt_step {
  char name[HIPRT_OF_KERNEL];
  hiprt_rules rules;
  hiprt_ladder *ladder;
  pthread_mutex_t lock;     /* held while a thread records, and from the choice of an exec to its launch */
  atomic_uintptr_t owner;   /* the thread that records; 0: none does, and the next four are not set */
  hiprt_recorder *recorder;
  hiprt_stream *stream;     /* that records */
  int is_capturing;
  int is_settled;       /* what is recorded has the addresses of its intermediates */
  hiprt_recorder *last; /* what was launched last, and by which exec; NULL: it ran eagerly */
  hiprt_exec *exec;
  hiprt_recorder *before;     /* what was launched before that, where it is another recording; else NULL */
  hiprt_outcome told;         /* how `last` was launched */
  hiprt_placement *placement; /* where the buffers of `last` are; NULL until some move */
  hiprt_step_stats stats;
};

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

/* Remember what was launched, which hiprt_step_again launches again. */
static void remember(hiprt_step *step, hiprt_recorder *recorder, hiprt_exec *exec) {
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
  remember(step, 0, 0);
  hiprt_recorder_release(step->before);
  hiprt_ladder_release(step->ladder);
  hiprt_kernel_release(step->rules.canary);
  pthread_mutex_destroy(&step->lock);
  free(step);
}

static int take(hiprt_step *step, const char *call) {
  if (hiprt_is_forked) return hiprt_fail(HIPRT_E_FORKED, call, 0);
  if (pthread_mutex_lock(&step->lock) != EDEADLK) return 0;
  return hiprt_fail(HIPRT_E_RECORDING, call, "this thread has begun the step: end it first");
}

/* Whether this thread records the step; any thread may ask. */
static int is_recording(const hiprt_step *step) { return atomic_load(&step->owner) == hiprt_this_thread(); }

int hiprt_step_begin(hiprt_step *step, hiprt_stream *stream) {
  int status = take(step, "hiprt_step_begin");
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
  if (!is_recording(step) || step->is_capturing)
    return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_step_capture", "it stands between hiprt_step_begin and hiprt_step_end, once");
  const int status = hiprt_flatten_begin(step->recorder, step->stream);
  step->is_capturing = !status;
  return status;
}

int hiprt_step_captured(hiprt_step *step, uint32_t n_ranges, const uint64_t *ranges, const uint8_t *access) {
  uint32_t nodes;
  if (!is_recording(step) || !step->is_capturing)
    return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_step_captured", "hiprt_step_capture comes first");
  step->is_capturing = 0;
  return hiprt_flatten_end(step->recorder, step->stream, n_ranges, (const hiprt_range *)ranges, access, !n_ranges, 0, 0,
                           &nodes);
}

int hiprt_step_plan(hiprt_step *step, uint32_t count, const hiprt_intermediate *intermediates, uint64_t *out_offsets,
                    hiprt_plan *out_plan) {
  if (!is_recording(step)) return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_step_plan", "this thread has not begun the step");
  return hiprt_recorder_plan(step->recorder, count, intermediates, out_offsets, out_plan);
}

int hiprt_step_settle(hiprt_step *step, hiprt_arena *arena) {
  int has_grown;
  if (!is_recording(step) || step->is_capturing || step->is_settled)
    return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_step_settle", "it stands between hiprt_step_begin and hiprt_step_end, once");
  const int status = hiprt_arena_settle(arena, step, step->recorder, step->stream, &has_grown);
  step->is_settled = !status;
  if (has_grown) remember(step, 0, 0); /* the memory of that launch is the pool's again */
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
  if (hiprt_is_forked || !is_recording(step)) return;
  hiprt_recorder_release(stop(step));
  hiprt_stream_release(step->stream);
  step->stream = 0;
  pthread_mutex_unlock(&step->lock);
}

/* Say in `out` which node is the first with other arguments. */
static void name_first(const hiprt_recorder *recorder, hiprt_outcome *out) {
  hiprt_node n;
  if (!out->changed || hiprt_recorder_node(recorder, out->first, &n) || !n.name) return;
  snprintf(out->node, sizeof out->node, "%s", n.name);
}

static int run_eagerly(hiprt_step *step, hiprt_recorder *recorder, hiprt_stream *stream, hiprt_outcome *out, int *out_ran) {
  out->rung = HIPRT_EAGER;
  const int status = hiprt_recorder_run(recorder, stream, out_ran);
  if (!status) {
    step->stats.rungs[HIPRT_EAGER]++;
    remember(step, recorder, 0);
  }
  return status;
}

/* Let a failed graph call be followed by an eager run, unless the nodes may have run already (G8). */
static int fall(hiprt_step *step, int failure, hiprt_recorder *recorder, hiprt_stream *stream, hiprt_outcome *out,
                int *out_ran) {
  hiprt_ladder_discard(step->ladder, hiprt_recorder_key(recorder));
  remember(step, 0, 0);
  if (*out_ran) return failure;
  /* What was seen to lose a change gets no more of them. */
  if (failure == HIPRT_E_STALE) step->rules.rungs &= ~(1u << HIPRT_PATCH | 1u << HIPRT_UPDATE);
  snprintf(out->reason, sizeof out->reason, "%.40s: %.16s %d %.80s", hiprt_failure_call(), hiprt_status_name(failure),
           failure, hiprt_failure_detail());
  return run_eagerly(step, recorder, stream, out, out_ran);
}

static int launch(hiprt_step *step, hiprt_recorder *recorder, hiprt_stream *stream, hiprt_outcome *out, int *out_ran) {
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
  name_first(recorder, out);
  if (!status) status = hiprt_exec_launch(choice.exec, stream, 1, out_ran);
  if (status) return fall(step, status, recorder, stream, out, out_ran);
  memcpy(out->reason, choice.reason, sizeof out->reason);
  out->rung = choice.rung;
  step->stats.rungs[choice.rung]++;
  if (choice.rung == HIPRT_PATCH) step->stats.patched += choice.differing;
  remember(step, recorder, choice.exec);
  return 0;
}

/* Give the caller what it asked for, and let other threads have the step. */
static int finish(hiprt_step *step, int status, const hiprt_outcome *outcome, int ran, hiprt_outcome *out_outcome,
                  int *out_ran) {
  if (!status) step->told = *outcome;
  if (out_outcome) *out_outcome = *outcome;
  if (out_ran) *out_ran = ran;
  pthread_mutex_unlock(&step->lock);
  return status;
}

int hiprt_step_end(hiprt_step *step, hiprt_outcome *out_outcome, int *out_ran) {
  hiprt_outcome outcome = {0};
  int ran = 0;
  if (!is_recording(step)) return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_step_end", "this thread has not begun the step");
  hiprt_recorder *recorder = stop(step);
  hiprt_stream *stream = step->stream;
  step->stream = 0;
  const int status = launch(step, recorder, stream, &outcome, &ran);
  hiprt_recorder_release(recorder);
  hiprt_stream_release(stream);
  return finish(step, status, &outcome, ran, out_outcome, out_ran);
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
  int ran = 0, status = take(step, "hiprt_step_adopt");
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
  if (!status) status = launch(step, recorder, stream, &outcome, &ran);
  hiprt_recorder_release(recorder);
  return finish(step, status, &outcome, ran, out_outcome, out_ran);
}

/* Launch the last exec again, or the nodes that it carries where it cannot be. */
static int launch_again(hiprt_step *step, hiprt_stream *stream, hiprt_outcome *out, int *out_ran) {
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
  status = fall(step, status, recorder, stream, out, out_ran);
  hiprt_recorder_release(recorder);
  return status;
}

int hiprt_step_again(hiprt_step *step, hiprt_stream *stream, hiprt_outcome *out_outcome, int *out_ran) {
  hiprt_outcome outcome = {0};
  int ran = 0;
  int status = take(step, "hiprt_step_again");
  if (status) return status;
  status = step->last ? launch_again(step, stream, &outcome, &ran)
                      : hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_step_again", "the step has launched nothing yet");
  return finish(step, status, &outcome, ran, out_outcome, out_ran);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Launch a copy of the last recording with the moves made, by any rung. */
static int launch_moved(hiprt_step *step, hiprt_stream *stream, uint32_t n_moves, const hiprt_move *moves,
                        hiprt_outcome *out, int *out_ran) {
  hiprt_recorder *moved;
  int status = hiprt_recorder_copy(step->last, &moved);
  if (status) return status;
  hiprt_recorder_relocate(moved, n_moves, moves);
  status = launch(step, moved, stream, out, out_ran);
  hiprt_recorder_release(moved);
  return status;
}

/* Patch the moves into the last exec; *out_is_moved is 0 where that is not allowed. */
static int patch_moves(hiprt_step *step, uint32_t n_nodes, const uint32_t *nodes, uint64_t bytes, uint32_t n_moves,
                       const hiprt_move *moves, hiprt_outcome *out, int *out_is_moved) {
  hiprt_exec *within = 0;
  *out_is_moved = 0;
  if (!step->exec || !(step->rules.rungs >> HIPRT_PATCH & 1)) return 0;
  const double start = now();
  hiprt_exec_hold(step->exec, 1);
  const int status = hiprt_ladder_move(step->ladder, step->exec, &step->rules, n_nodes, nodes, bytes, n_moves, moves, &within);
  hiprt_exec_hold(step->exec, -1);
  if (within && within != step->exec) hiprt_exec_hold(within, -1); /* a successor takes over who holds it */
  if (status) {
    hiprt_ladder_discard(step->ladder, hiprt_recorder_key(step->last));
    remember(step, 0, 0);
    if (status == HIPRT_E_STALE) step->rules.rungs &= ~(1u << HIPRT_PATCH | 1u << HIPRT_UPDATE);
    return status;
  }
  step->stats.replaced += within && within != step->exec;
  *out_is_moved = within == step->exec;
  if (*out_is_moved) out->seconds = now() - start;
  return 0;
}

/* Launch the last exec with the moves made. */
static int move(hiprt_step *step, hiprt_stream *stream, uint32_t n_moves, const hiprt_move *moves, hiprt_outcome *out,
                int *out_ran) {
  const uint32_t *nodes;
  uint32_t count;
  uint64_t bytes;
  int status = hiprt_stream_is_open(stream, "hiprt_step_move"), is_moved;
  if (status) return status;
  if (hiprt_recorder_foreign(step->last))
    return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_step_move", "work of other code may have the addresses too");
  /* The exec may carry an earlier recording of the same arguments, and that is what its patches change. */
  if (step->exec && hiprt_exec_recorder(step->exec) != step->last) remember(step, hiprt_exec_recorder(step->exec), step->exec);
  if (!step->placement) status = hiprt_placement_create(step->last, &step->placement);
  if (!status) status = hiprt_placement_find(step->placement, n_moves, moves, &count, &nodes, &bytes);
  if (status) return status;
  if (!count) return launch_again(step, stream, out, out_ran);
  out->nodes = hiprt_recorder_size(step->last);
  out->changed = count;
  out->first = nodes[0];
  for (uint32_t i = 1; i < count; i++)
    if (nodes[i] < out->first) out->first = nodes[i];
  name_first(step->last, out);
  status = patch_moves(step, count, nodes, bytes, n_moves, moves, out, &is_moved);
  if (status) return status;
  if (!is_moved) return launch_moved(step, stream, n_moves, moves, out, out_ran);
  hiprt_placement_move(step->placement, n_moves, moves);
  status = hiprt_exec_launch(step->exec, stream, 1, out_ran);
  if (status) {
    hiprt_recorder *recorder = step->last;
    hiprt_recorder_retain(recorder);
    status = fall(step, status, recorder, stream, out, out_ran);
    hiprt_recorder_release(recorder);
    return status;
  }
  out->rung = HIPRT_PATCH;
  snprintf(out->reason, sizeof out->reason, "arrays moved, %u nodes", count);
  step->stats.rungs[HIPRT_PATCH]++;
  step->stats.patched += count;
  return 0;
}

int hiprt_step_move(hiprt_step *step, hiprt_stream *stream, uint32_t n_moves, const hiprt_move *moves,
                    hiprt_outcome *out_outcome, int *out_ran) {
  hiprt_outcome outcome = {0};
  int ran = 0;
  int status = take(step, "hiprt_step_move");
  if (status) return status;
  status = step->last ? move(step, stream, n_moves, moves, &outcome, &ran)
                      : hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_step_move", "the step has launched nothing yet");
  return finish(step, status, &outcome, ran, out_outcome, out_ran);
}

void hiprt_step_count(hiprt_step *step, hiprt_step_stats *out_stats) {
  memset(out_stats, 0, sizeof *out_stats);
  if (take(step, "hiprt_step_count")) return;
  *out_stats = step->stats;
  out_stats->execs = hiprt_ladder_execs(step->ladder, 0, 0);
  pthread_mutex_unlock(&step->lock);
}

/* Take the step to tell of what it launched last. */
static int take_launched(hiprt_step *step, const char *call) {
  int status = take(step, call);
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
    remember(step, recorder, 0);
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
