#include "ladder.h"

#include <stdio.h>
#include <string.h>

#include "budget.h"
#include "recording.h"
#include "seconds.h"
#include "slots.h"
#include "status.h"

/* What one search works with. */
typedef struct {
  hiprt_ladder *ladder;
  hiprt_topology *topology;
  hiprt_recorder *recorder;
  hiprt_stream *stream;
  const hiprt_rules *rules;
  hiprt_choice *out;
} search;

/* Compare the arguments with those of each exec, and choose one that carries them already. */
static int replay(const search *s) {
  const int may_replay = s->rules->rungs >> HIPRT_REPLAY & 1;
  for (uint32_t i = 0; i < s->topology->n_slots; i++) {
    hiprt_slot *each = s->topology->slots + i;
    const hiprt_recorder *carried = hiprt_exec_recorder(each->exec);
    each->is_same = hiprt_recorder_same_key(carried, s->recorder);
    const int status = each->is_same ? hiprt_recorder_compare(carried, s->recorder, &each->changes) : 0;
    if (status) return status;
    if (!may_replay || !each->is_same || each->changes.count) continue;
    const int may_launch = hiprt_exec_may_launch(each->exec, s->stream);
    if (may_launch == 1) s->out->exec = each->exec;
    if (may_launch) return may_launch == 1 ? 0 : may_launch;
  }
  return 0;
}

/* Tell how far the nearest exec is from the arguments. */
static void tell_nearest(const search *s) {
  s->out->is_new = 1;
  s->out->changed = hiprt_recorder_size(s->recorder);
  for (uint32_t i = 0; i < s->topology->n_slots; i++) {
    const hiprt_slot *each = s->topology->slots + i;
    if (!each->is_same) continue;
    const hiprt_changes *changes = &each->changes;
    if (s->out->is_new || changes->count < s->out->changed) {
      s->out->changed = changes->count;
      s->out->first = changes->count ? *changes->nodes : 0;
    }
    s->out->is_new = 0;
  }
}

/* Count the execs of the recording's topology and those that no kept call holds, and choose one of these: one without a
 * launch in flight, else the one that was launched first. */
static int survey(const search *s, uint32_t *out_same, uint32_t *out_free, hiprt_exec **out_exec, int *out_drained) {
  *out_same = *out_free = 0;
  *out_exec = 0;
  *out_drained = 0;
  for (uint32_t i = 0; i < s->topology->n_slots; i++) {
    const hiprt_slot *each = s->topology->slots + i;
    if (!each->is_same) continue;
    ++*out_same;
    if (hiprt_exec_hold(each->exec, 0)) continue;
    ++*out_free;
    if (*out_drained) continue;
    const int busy = hiprt_exec_busy(each->exec);
    if (busy != 0 && busy != 1) return busy;
    *out_drained = !busy;
    if (!busy || !*out_exec || hiprt_exec_launched(each->exec) < hiprt_exec_launched(*out_exec)) *out_exec = each->exec;
  }
  return 0;
}

/* Begin to make an exec by rules. */
static hiprt_successor *begin(hiprt_recorder *recorder, int device, const hiprt_rules *rules) {
  return hiprt_successor_create(recorder, device, rules->fanout, (int)rules->overlap, rules->canary);
}

/* Begin to make an exec of a copy of what a recorder holds: a move changes the recorder of the old exec where it is. */
static hiprt_successor *begin_copy(const hiprt_recorder *recorder, int device, const hiprt_rules *rules) {
  hiprt_recorder *copy;
  if (hiprt_recorder_create(HIPRT_EDGES_DATA, &copy)) return 0;
  hiprt_successor *made = 0;
  if (!hiprt_recorder_slice(recorder, 0, hiprt_recorder_size(recorder), copy)) made = begin(copy, device, rules);
  hiprt_recorder_release(copy);
  return made;
}

/* Find where a change may be made within the update budget (G7): in an exec without a launch in flight, or in the successor
 * that takes its place; *out_exec is NULL where it is more than any exec may take, or there is no successor. Once half of the
 * budget is used, another thread makes the successor, of the recorder's nodes: what is launched next has its memory. */
static int find_within(hiprt_ladder *ladder, hiprt_exec *exec, const hiprt_recorder *recorder, const hiprt_rules *rules,
                       uint32_t nodes, uint64_t bytes, hiprt_exec **out_exec) {
  *out_exec = 0;
  const uint64_t n = hiprt_exec_updated_nodes(exec);
  const double used = hiprt_budget_used(rules, n, hiprt_exec_updated_bytes(exec), nodes, bytes);
  if (used < 0) return 0;
  hiprt_topology *t;
  hiprt_slot *old = used > HIPRT_BUDGET_SUCCESSOR ? hiprt_slots_find(ladder, exec, &t) : 0;
  if (old && !old->successor && n) {
    old->successor = begin_copy(recorder, hiprt_exec_device(exec), rules);
    if (!old->successor) return HIPRT_E_MEMORY;
  }
  if (used <= 1) {
    *out_exec = exec;
    return 0;
  }
  if (!old) return 0;
  hiprt_slot fresh = {0};
  hiprt_successor *successor = old->successor;
  old->successor = 0;
  /* One that could not be made is none: memory of its copies may have gone meanwhile, which HIP refuses then. */
  if (hiprt_successor_take(successor, &fresh.exec)) return 0;
  const hiprt_slot spent = *old;
  fresh.is_same = spent.is_same;
  hiprt_exec_hold(fresh.exec, (int)hiprt_exec_hold(spent.exec, 0));
  *old = fresh;
  *out_exec = fresh.exec;
  hiprt_slots_let_go(ladder, spent);
  return 0;
}

int hiprt_ladder_move(hiprt_ladder *ladder, hiprt_exec *exec, const hiprt_rules *rules, uint32_t n_nodes,
                      const uint32_t *nodes, uint64_t bytes, uint32_t n_moves, const hiprt_move *moves,
                      hiprt_exec **out_exec) {
  *out_exec = 0;
  if (hiprt_exec_hold(exec, 0) != 1) return 0;
  int status = hiprt_exec_wait(exec);
  if (!status) status = find_within(ladder, exec, hiprt_exec_recorder(exec), rules, n_nodes, bytes, out_exec);
  if (!status && *out_exec == exec) status = hiprt_exec_move(exec, n_nodes, nodes, n_moves, moves);
  return status;
}

/* Make an exec without a launch in flight carry the arguments, by the cheaper rung; s->out->exec stays NULL where no rung
 * or the budget allows it. */
static int change(const search *s, hiprt_exec *exec) {
  const uint32_t size = hiprt_recorder_size(s->recorder);
  for (;;) {
    hiprt_topology *t;
    const hiprt_changes *changes = &hiprt_slots_find(s->ladder, exec, &t)->changes;
    const uint32_t count = changes->count;
    const uint32_t rung = hiprt_rung_cheaper(count, size, s->rules->rungs);
    if (rung == HIPRT_EAGER) return 0;
    const int is_patch = rung == HIPRT_PATCH;
    const uint32_t nodes = is_patch ? count : size;
    hiprt_exec *within;
    const uint64_t written = is_patch ? changes->bytes : hiprt_recorder_bytes(s->recorder);
    int status = find_within(s->ladder, exec, s->recorder, s->rules, nodes, written, &within);
    if (status || !within) return status;
    if (within != exec) {
      s->out->replaced++;
      exec = within;
      status = hiprt_recorder_compare(hiprt_exec_recorder(exec), s->recorder, &hiprt_slots_find(s->ladder, exec, &t)->changes);
      if (status) return status;
      continue;
    }
    const double start = hiprt_seconds();
    status = is_patch ? hiprt_exec_patch_nodes(exec, s->recorder, changes) : hiprt_exec_update(exec, s->recorder);
    if (status) return status;
    s->out->seconds = hiprt_seconds() - start;
    hiprt_rung_measure(rung, s->out->seconds, nodes);
    s->out->rung = rung;
    s->out->exec = exec;
    s->out->first = count ? *changes->nodes : 0;
    s->out->differing = count;
    snprintf(s->out->reason, sizeof s->out->reason, "arguments of %u of %u nodes changed", count, size);
    return 0;
  }
}

static int instantiate(const search *s) {
  hiprt_slot fresh = {0};
  const double start = hiprt_seconds();
  int status = hiprt_exec_create(s->recorder, s->stream->device, s->rules->fanout, (int)s->rules->overlap,
                                 s->rules->canary, &fresh.exec);
  if (status) return status;
  s->out->seconds = hiprt_seconds() - start;
  s->out->rung = HIPRT_INSTANTIATE;
  s->out->exec = fresh.exec;
  return hiprt_slots_keep(s->ladder, s->topology, fresh, s->rules->keys);
}

int hiprt_ladder_begin(hiprt_recorder *recorder, int device, const hiprt_rules *rules, hiprt_successor **out_successor) {
  *out_successor = begin(recorder, device, rules);
  return *out_successor ? 0 : HIPRT_E_MEMORY;
}

int hiprt_ladder_take(hiprt_ladder *ladder, hiprt_successor *successor, const hiprt_rules *rules, hiprt_exec **out_exec) {
  hiprt_slot fresh = {0};
  *out_exec = 0;
  int status = hiprt_successor_take(successor, &fresh.exec);
  if (status) return status;
  hiprt_topology *t = hiprt_slots_use(ladder, hiprt_recorder_key(hiprt_exec_recorder(fresh.exec)));
  if (!t) {
    hiprt_slots_let_go(ladder, fresh);
    return HIPRT_E_MEMORY;
  }
  status = hiprt_slots_keep(ladder, t, fresh, rules->keys);
  if (!status) *out_exec = fresh.exec;
  return status;
}

int hiprt_ladder_find(hiprt_ladder *ladder, hiprt_recorder *recorder, hiprt_stream *stream, const hiprt_rules *rules,
                      hiprt_choice *out) {
  memset(out, 0, sizeof *out);
  hiprt_topology *t = hiprt_slots_use(ladder, hiprt_recorder_key(recorder));
  if (!t) return HIPRT_E_MEMORY;
  const search s = {ladder, t, recorder, stream, rules, out};
  int status = replay(&s);
  if (status || out->exec) return status;
  tell_nearest(&s);
  uint32_t same, free;
  hiprt_exec *old;
  int is_drained;
  status = survey(&s, &same, &free, &old, &is_drained);
  if (status) return status;
  hiprt_rung_why_another(same, free, is_drained, hiprt_slots_comes_back(t, hiprt_recorder_arguments(recorder), rules->slots),
                           rules->slots, out->reason);
  if (!*out->reason) {
    if (!is_drained) {
      out->waited = free;
      status = hiprt_exec_wait(old);
      if (status) return status;
    }
    status = change(&s, old);
    if (status || out->exec) return status;
    hiprt_ladder_drop(ladder, old);
    snprintf(out->reason, sizeof out->reason, "%s", hiprt_rung_no_change);
  }
  return instantiate(&s);
}
