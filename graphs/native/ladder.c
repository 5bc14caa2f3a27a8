#define _GNU_SOURCE
#include "ladder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "budget.h"
#include "status.h"
#include "successor.h"

/* An exec, and what the ladder knows of it. */
typedef struct {
  hiprt_exec *exec;
  hiprt_successor *successor; /* NULL until half of the budget is used */
  int is_same; /* as the recording that is searched for now */
  hiprt_changes changes; /* from what it carries to that, where it is the same */
} slot;

#define LEAST_TURNS 4 /* twice as many arguments, or twice as many as there are slots, are remembered */

/* The execs whose keys have one hash. */
typedef struct {
  uint64_t key;
  slot *slots;
  uint32_t n_slots, capacity;
  uint64_t *seen; /* hashes of the arguments that came last, in a ring */
  uint32_t n_seen, next_seen, max_seen;
} topology;

struct hiprt_ladder {
  topology *topologies; /* the one used longest ago first */
  uint32_t count, capacity;
  uint32_t evicted;
  uint64_t version;
};

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Make room for one more item behind `count` items. */
static int reserve(void **data, uint32_t count, uint32_t *capacity, size_t size) {
  if (count < *capacity) return 0;
  const uint32_t wanted = *capacity ? 2 * *capacity : 4;
  void *grown = realloc(*data, wanted * size);
  if (!grown) return hiprt_fail(HIPRT_E_MEMORY, "hiprt_ladder", 0);
  *data = grown;
  *capacity = wanted;
  return 0;
}

int hiprt_ladder_create(hiprt_ladder **out_ladder) {
  *out_ladder = calloc(1, sizeof **out_ladder);
  return *out_ladder ? 0 : hiprt_fail(HIPRT_E_MEMORY, "hiprt_ladder_create", 0);
}

static void let_go(hiprt_ladder *ladder, slot gone) {
  ladder->version++;
  free(gone.changes.nodes);
  hiprt_successor_release(gone.successor);
  hiprt_exec_release(gone.exec);
}

static void empty(hiprt_ladder *ladder, topology *t) {
  while (t->n_slots) let_go(ladder, t->slots[--t->n_slots]);
}

static void remove_topology(hiprt_ladder *ladder, uint32_t index) {
  topology *t = ladder->topologies + index;
  empty(ladder, t);
  free(t->slots);
  free(t->seen);
  memmove(t, t + 1, (--ladder->count - index) * sizeof *t);
}

void hiprt_ladder_clear(hiprt_ladder *ladder) {
  while (ladder->count) remove_topology(ladder, ladder->count - 1);
}

void hiprt_ladder_release(hiprt_ladder *ladder) {
  if (!ladder) return;
  hiprt_ladder_clear(ladder);
  free(ladder->topologies);
  free(ladder);
}

static topology *find_topology(const hiprt_ladder *ladder, uint64_t key) {
  for (uint32_t i = ladder->count; i-- > 0;)
    if (ladder->topologies[i].key == key) return ladder->topologies + i;
  return 0;
}

/* Return the topology of a key as the one used last; NULL if there is no memory for it. */
static topology *use_topology(hiprt_ladder *ladder, uint64_t key) {
  topology *t = find_topology(ladder, key), used = {.key = key};
  if (t) {
    used = *t;
    memmove(t, t + 1, (size_t)(ladder->topologies + --ladder->count - t) * sizeof *t);
  } else if (reserve((void **)&ladder->topologies, ladder->count, &ladder->capacity, sizeof *t)) {
    return 0;
  }
  t = ladder->topologies + ladder->count++;
  *t = used;
  return t;
}

/* Return the slot of an exec, which may have been dropped, and its topology. */
static slot *find_slot(const hiprt_ladder *ladder, const hiprt_exec *exec, topology **out_topology) {
  for (uint32_t i = ladder->count; i-- > 0;)
    for (uint32_t k = 0; k < ladder->topologies[i].n_slots; k++)
      if (ladder->topologies[i].slots[k].exec == exec) {
        *out_topology = ladder->topologies + i;
        return (*out_topology)->slots + k;
      }
  return 0;
}

/* Keep an exec, whose reference the ladder takes, and drop the topologies used longest ago that are over the bound. */
static int add(hiprt_ladder *ladder, topology *t, slot fresh, uint32_t keys) {
  if (reserve((void **)&t->slots, t->n_slots, &t->capacity, sizeof *t->slots)) {
    let_go(ladder, fresh);
    return HIPRT_E_MEMORY;
  }
  t->slots[t->n_slots++] = fresh;
  ladder->version++;
  uint32_t live = hiprt_ladder_topologies(ladder);
  /* Those without execs are kept for the arguments that they have seen, within a bound of their own. */
  while ((live > keys || ladder->count > 2 * (uint64_t)keys) && ladder->topologies != t) {
    const int had_execs = ladder->topologies->n_slots > 0;
    remove_topology(ladder, 0);
    ladder->evicted += had_execs;
    live -= had_execs;
    t--;
  }
  return 0;
}

void hiprt_ladder_drop(hiprt_ladder *ladder, hiprt_exec *exec) {
  topology *t;
  slot *gone = find_slot(ladder, exec, &t);
  if (!gone) return;
  const slot kept = *gone;
  *gone = t->slots[--t->n_slots];
  let_go(ladder, kept);
}

void hiprt_ladder_discard(hiprt_ladder *ladder, uint64_t key) {
  topology *t = find_topology(ladder, key);
  if (t) empty(ladder, t);
}

uint64_t hiprt_ladder_version(const hiprt_ladder *ladder) { return ladder->version; }
uint32_t hiprt_ladder_evicted(const hiprt_ladder *ladder) { return ladder->evicted; }

uint32_t hiprt_ladder_topologies(const hiprt_ladder *ladder) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < ladder->count; i++) count += ladder->topologies[i].n_slots > 0;
  return count;
}

uint32_t hiprt_ladder_execs(const hiprt_ladder *ladder, uint32_t room, hiprt_exec **out_execs) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < ladder->count; i++)
    for (uint32_t k = 0; k < ladder->topologies[i].n_slots; k++, count++)
      if (count < room) out_execs[count] = ladder->topologies[i].slots[k].exec;
  return count;
}

/* Note arguments; whether the topology had them before, as buffers that take turns do. Without memory nothing is noted. */
static int comes_back(topology *t, uint64_t arguments, uint32_t slots) {
  if (slots < LEAST_TURNS) slots = LEAST_TURNS;
  for (uint32_t i = 0; i < t->n_seen; i++)
    if (t->seen[i] == arguments) return 1;
  if (!t->seen && (t->seen = calloc(slots, 2 * sizeof *t->seen))) t->max_seen = 2 * slots;
  if (!t->seen) return 0;
  t->seen[t->next_seen] = arguments;
  t->next_seen = (t->next_seen + 1) % t->max_seen;
  if (t->n_seen < t->max_seen) t->n_seen++;
  return 0;
}

/* What one search works with. */
typedef struct {
  hiprt_ladder *ladder;
  topology *topology;
  hiprt_recorder *recorder;
  hiprt_stream *stream;
  const hiprt_rules *rules;
  hiprt_choice *out;
} search;

/* Compare the arguments with those of each exec, and choose one that carries them already. */
static int replay(const search *s) {
  const int may_replay = s->rules->rungs >> HIPRT_REPLAY & 1;
  for (uint32_t i = 0; i < s->topology->n_slots; i++) {
    slot *each = s->topology->slots + i;
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
    const slot *each = s->topology->slots + i;
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
    const slot *each = s->topology->slots + i;
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
  topology *t;
  slot *old = used > HIPRT_BUDGET_SUCCESSOR ? find_slot(ladder, exec, &t) : 0;
  if (old && !old->successor && n) {
    old->successor = begin_copy(recorder, hiprt_exec_device(exec), rules);
    if (!old->successor) return HIPRT_E_MEMORY;
  }
  if (used <= 1) {
    *out_exec = exec;
    return 0;
  }
  if (!old) return 0;
  slot fresh = {0};
  hiprt_successor *successor = old->successor;
  old->successor = 0;
  /* One that could not be made is none: memory of its copies may have gone meanwhile, which HIP refuses then. */
  if (hiprt_successor_take(successor, &fresh.exec)) return 0;
  const slot spent = *old;
  fresh.is_same = spent.is_same;
  hiprt_exec_hold(fresh.exec, (int)hiprt_exec_hold(spent.exec, 0));
  *old = fresh;
  *out_exec = fresh.exec;
  let_go(ladder, spent);
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
    topology *t;
    const hiprt_changes *changes = &find_slot(s->ladder, exec, &t)->changes;
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
      status = hiprt_recorder_compare(hiprt_exec_recorder(exec), s->recorder, &find_slot(s->ladder, exec, &t)->changes);
      if (status) return status;
      continue;
    }
    const double start = now();
    status = is_patch ? hiprt_exec_patch_nodes(exec, s->recorder, changes) : hiprt_exec_update(exec, s->recorder);
    if (status) return status;
    s->out->seconds = now() - start;
    hiprt_rung_measure(rung, s->out->seconds, nodes);
    s->out->rung = rung;
    s->out->exec = exec;
    s->out->first = count ? *changes->nodes : 0;
    s->out->differing = count;
    snprintf(s->out->reason, sizeof s->out->reason, "arguments of %u of %u nodes changed", count, size);
    return 0;
  }
}

static uint64_t hash_starts(const uint64_t *starts, uint32_t count) {
  uint64_t found = count;
  for (uint32_t i = 0; i < count; i++) {
    found = (found ^ starts[i]) * 1099511628211u;
    found ^= found >> 29;
  }
  return found;
}

/* Whether an exec may be pointed to memory that begins at `starts`, of which its recording has the table. */
static int may_point(const topology *t, slot *own, const hiprt_pointers *pointers, const uint64_t *starts,
                     const hiprt_stream *stream, const hiprt_rules *rules) {
  const uint32_t memories = hiprt_pointers_memories(pointers);
  const uint64_t *known;
  if (hiprt_recorder_pointers(hiprt_exec_recorder(own->exec), &known) != pointers || hiprt_exec_hold(own->exec, 0)) return 0;
  for (uint32_t i = 0; i < t->n_slots; i++)
    if (hiprt_recorder_pointers(hiprt_exec_recorder(t->slots[i].exec), &known) == pointers &&
        !memcmp(known, starts, memories * sizeof *starts))
      return 0;
  return hiprt_exec_may_launch(own->exec, stream) == 1 && hiprt_exec_busy(own->exec) == 0 && rules->budget_nodes;
}

/* Say what of the first node differs from the payload that it had. */
static void tell_pointed(const hiprt_recorder *recorder, uint32_t index, hiprt_pointed *out) {
  hiprt_node n;
  hiprt_recorder_node(recorder, index, &n);
  out->shown = (hiprt_difference){.name = n.name ? n.name : "", .argument = UINT32_MAX};
  for (uint32_t i = 0; n.kernel && n.payload_size <= sizeof out->before && i < n.kernel->n_args; i++) {
    const size_t at = sizeof(hiprt_dims) + n.kernel->offsets[i], size = n.kernel->args[i].size;
    if (!memcmp(out->before + at, n.payload + at, size)) continue;
    out->shown = (hiprt_difference){n.name, 0, out->before + at, n.payload + at, i, (uint32_t)size};
    return;
  }
}

int hiprt_ladder_point(hiprt_ladder *ladder, hiprt_exec *exec, hiprt_pointers *pointers, const uint64_t *starts,
                       hiprt_stream *stream, const hiprt_rules *rules, hiprt_choice *out, hiprt_pointed *out_pointed) {
  topology *t;
  memset(out, 0, sizeof *out);
  slot *own = find_slot(ladder, exec, &t);
  if (!own || !may_point(t, own, pointers, starts, stream, rules)) return 0;
  hiprt_recorder *recorder = hiprt_exec_recorder(exec);
  hiprt_changes *changes = &own->changes;
  int status = hiprt_recorder_compare_starts(recorder, starts, changes);
  if (status) return status;
  const uint32_t size = hiprt_recorder_size(recorder), count = changes->count;
  const double used = hiprt_budget_used(rules, hiprt_exec_updated_nodes(exec), hiprt_exec_updated_bytes(exec), count,
                                        changes->bytes);
  if (!count || used < 0 || used > HIPRT_BUDGET_SUCCESSOR) return 0;
  if (hiprt_rung_cheaper(count, size, rules->rungs) != HIPRT_PATCH) return 0;
  if (comes_back(t, hash_starts(starts, hiprt_pointers_memories(pointers)), rules->slots) && t->n_slots < rules->slots)
    return 0;
  hiprt_node n;
  hiprt_recorder_node(recorder, *changes->nodes, &n);
  if (n.payload_size <= sizeof out_pointed->before) memcpy(out_pointed->before, n.payload, n.payload_size);
  const double start = now();
  status = hiprt_exec_point(exec, pointers, starts, changes);
  if (status) return status;
  out->seconds = now() - start;
  hiprt_rung_measure(HIPRT_PATCH, out->seconds, count);
  out->rung = HIPRT_PATCH;
  out->exec = exec;
  out->changed = out->differing = count;
  out->first = *changes->nodes;
  tell_pointed(recorder, out->first, out_pointed);
  snprintf(out->reason, sizeof out->reason, "arguments of %u of %u nodes changed", count, size);
  return 0;
}

static int instantiate(const search *s) {
  slot fresh = {0};
  const double start = now();
  int status = hiprt_exec_create(s->recorder, s->stream->device, s->rules->fanout, (int)s->rules->overlap,
                                 s->rules->canary, &fresh.exec);
  if (status) return status;
  s->out->seconds = now() - start;
  s->out->rung = HIPRT_INSTANTIATE;
  s->out->exec = fresh.exec;
  return add(s->ladder, s->topology, fresh, s->rules->keys);
}

int hiprt_ladder_begin(hiprt_recorder *recorder, int device, const hiprt_rules *rules, hiprt_successor **out_successor) {
  *out_successor = begin(recorder, device, rules);
  return *out_successor ? 0 : HIPRT_E_MEMORY;
}

int hiprt_ladder_take(hiprt_ladder *ladder, hiprt_successor *successor, const hiprt_rules *rules, hiprt_exec **out_exec) {
  slot fresh = {0};
  *out_exec = 0;
  int status = hiprt_successor_take(successor, &fresh.exec);
  if (status) return status;
  topology *t = use_topology(ladder, hiprt_recorder_key(hiprt_exec_recorder(fresh.exec)));
  if (!t) {
    let_go(ladder, fresh);
    return HIPRT_E_MEMORY;
  }
  status = add(ladder, t, fresh, rules->keys);
  if (!status) *out_exec = fresh.exec;
  return status;
}

int hiprt_ladder_find(hiprt_ladder *ladder, hiprt_recorder *recorder, hiprt_stream *stream, const hiprt_rules *rules,
                      hiprt_choice *out) {
  memset(out, 0, sizeof *out);
  topology *t = use_topology(ladder, hiprt_recorder_key(recorder));
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
  hiprt_rung_why_another(same, free, is_drained, comes_back(t, hiprt_recorder_arguments(recorder), rules->slots),
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
