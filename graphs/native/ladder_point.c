#include "ladder_point.h"

#include <stdio.h>
#include <string.h>

#include "addresses.h"
#include "budget.h"
#include "seconds.h"
#include "slots.h"

static uint64_t hash_starts(const uint64_t *starts, uint32_t count) {
  uint64_t found = count;
  for (uint32_t i = 0; i < count; i++) {
    found = (found ^ starts[i]) * 1099511628211u;
    found ^= found >> 29;
  }
  return found;
}

/* Whether an exec may be pointed to memory that begins at `starts`, of which its recording has the table. */
static int may_point(const hiprt_topology *t, hiprt_slot *own, const hiprt_pointers *pointers, const uint64_t *starts,
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
  hiprt_topology *t;
  memset(out, 0, sizeof *out);
  hiprt_slot *own = hiprt_slots_find(ladder, exec, &t);
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
  const uint64_t arguments = hash_starts(starts, hiprt_pointers_memories(pointers));
  if (hiprt_slots_comes_back(t, arguments, rules->slots) && t->n_slots < rules->slots) return 0;
  hiprt_node n;
  hiprt_recorder_node(recorder, *changes->nodes, &n);
  if (n.payload_size <= sizeof out_pointed->before) memcpy(out_pointed->before, n.payload, n.payload_size);
  const double start = hiprt_seconds();
  status = hiprt_exec_point(exec, pointers, starts, changes);
  if (status) return status;
  out->seconds = hiprt_seconds() - start;
  hiprt_rung_measure(HIPRT_PATCH, out->seconds, count);
  out->rung = HIPRT_PATCH;
  out->exec = exec;
  out->changed = out->differing = count;
  out->first = *changes->nodes;
  tell_pointed(recorder, out->first, out_pointed);
  snprintf(out->reason, sizeof out->reason, "arguments of %u of %u nodes changed", count, size);
  return 0;
}

