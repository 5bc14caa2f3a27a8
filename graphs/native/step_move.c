/* Moves of a step's arrays: what was launched last is patched where they lie now, without a recording. */
#include <stdio.h>

#include "addresses.h"
#include "recording.h"
#include "seconds.h"
#include "status.h"
#include "step_launch.h"
#include "stream.h"

/* Launch a copy of the last recording with the moves made, by any rung. */
static int launch_moved(hiprt_step *step, hiprt_stream *stream, uint32_t n_moves, const hiprt_move *moves,
                        hiprt_outcome *out, int *out_ran) {
  hiprt_recorder *moved;
  int status = hiprt_recorder_copy(step->last, &moved);
  if (status) return status;
  hiprt_recorder_relocate(moved, n_moves, moves);
  status = hiprt_step_launch(step, moved, stream, out, out_ran);
  hiprt_recorder_release(moved);
  return status;
}

/* Patch the moves into the last exec; *out_is_moved is 0 where that is not allowed. */
static int patch_moves(hiprt_step *step, uint32_t n_nodes, const uint32_t *nodes, uint64_t bytes, uint32_t n_moves,
                       const hiprt_move *moves, hiprt_outcome *out, int *out_is_moved) {
  hiprt_exec *within = 0;
  *out_is_moved = 0;
  if (!step->exec || !(step->rules.rungs >> HIPRT_PATCH & 1)) return 0;
  const double start = hiprt_seconds();
  hiprt_exec_hold(step->exec, 1);
  const int status = hiprt_ladder_move(step->ladder, step->exec, &step->rules, n_nodes, nodes, bytes, n_moves, moves, &within);
  hiprt_exec_hold(step->exec, -1);
  if (within && within != step->exec) hiprt_exec_hold(within, -1); /* a successor takes over who holds it */
  if (status) {
    hiprt_ladder_discard(step->ladder, hiprt_recorder_key(step->last));
    hiprt_step_remember(step, 0, 0);
    if (status == HIPRT_E_STALE) step->rules.rungs &= ~(1u << HIPRT_PATCH | 1u << HIPRT_UPDATE);
    return status;
  }
  step->stats.replaced += within && within != step->exec;
  *out_is_moved = within == step->exec;
  if (*out_is_moved) out->seconds = hiprt_seconds() - start;
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
  if (step->exec && hiprt_exec_recorder(step->exec) != step->last)
    hiprt_step_remember(step, hiprt_exec_recorder(step->exec), step->exec);
  if (!step->placement) status = hiprt_placement_create(step->last, &step->placement);
  if (!status) status = hiprt_placement_find(step->placement, n_moves, moves, &count, &nodes, &bytes);
  if (status) return status;
  if (!count) return hiprt_step_launch_last(step, stream, out, out_ran);
  out->nodes = hiprt_recorder_size(step->last);
  out->changed = count;
  out->first = nodes[0];
  for (uint32_t i = 1; i < count; i++)
    if (nodes[i] < out->first) out->first = nodes[i];
  hiprt_step_name_first(step->last, out);
  status = patch_moves(step, count, nodes, bytes, n_moves, moves, out, &is_moved);
  if (status) return status;
  if (!is_moved) return launch_moved(step, stream, n_moves, moves, out, out_ran);
  hiprt_placement_move(step->placement, n_moves, moves);
  status = hiprt_exec_launch(step->exec, stream, 1, out_ran);
  if (status) {
    hiprt_recorder *recorder = step->last;
    hiprt_recorder_retain(recorder);
    status = hiprt_step_fall(step, status, recorder, stream, out, out_ran);
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
  int status = hiprt_step_take(step, "hiprt_step_move");
  if (status) return status;
  status = step->last ? move(step, stream, n_moves, moves, &outcome, &ran)
                      : hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_step_move", "the step has launched nothing yet");
  return hiprt_step_finish(step, status, &outcome, ran, out_outcome, out_ran);
}

