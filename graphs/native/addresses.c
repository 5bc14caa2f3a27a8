#include "addresses.h"

#include <stdlib.h>

#include "recorder_nodes.h"
#include "status.h"

void hiprt_recorder_forget_pointers(hiprt_recorder *r) {
  if (!r->pointers) return;
  hiprt_pointers_release(r->pointers);
  free(r->starts);
  r->pointers = 0;
  r->starts = 0;
}

int hiprt_recorder_keep_pointers(hiprt_recorder *r, hiprt_pointers *pointers, const uint64_t *starts) {
  const size_t count = hiprt_pointers_memories(pointers);
  uint64_t *kept = calloc(count + 1, sizeof *kept);
  if (!kept) return hiprt_fail(HIPRT_E_MEMORY, "hiprt_recorder_point", 0);
  memcpy(kept, starts, count * sizeof *kept);
  hiprt_recorder_forget_pointers(r);
  r->pointers = hiprt_pointers_retain(pointers);
  r->starts = kept;
  return 0;
}

uint32_t hiprt_recorder_users(const hiprt_recorder *r, uint64_t start, uint64_t end, uint32_t *out_nodes) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < r->n_nodes; i++)
    if (hiprt_recorder_moved(r, i, 1, &(hiprt_move){start, end, start}, 0)) out_nodes[count++] = i;
  return count;
}

uint32_t hiprt_recorder_moved(const hiprt_recorder *r, uint32_t index, uint32_t n_moves, const hiprt_move *moves,
                              char *out_payload) {
  const node *n = r->nodes + index;
  const char *payload = r->bytes + n->payload;
  if (n->kind == HIPRT_NODE_KERNEL) return hiprt_kernel_moved(n->kernel, payload, n_moves, moves, out_payload);
  hiprt_copy_args args = {0};
  uint32_t addresses = n->kind == HIPRT_NODE_COPY ? 2 : n->kind == HIPRT_NODE_FILL ? 1 : 0;
  if (addresses) memcpy(&args, payload, n->payload_size);
  uint32_t moved = addresses > 0 && hiprt_move_address(&args.dst, n_moves, moves);
  moved += addresses > 1 && hiprt_move_address(&args.src, n_moves, moves);
  if (out_payload && addresses) memcpy(out_payload, &args, n->payload_size);
  return moved;
}

void hiprt_recorder_relocate(hiprt_recorder *r, uint32_t n_moves, const hiprt_move *moves) {
  hiprt_recorder_forget_pointers(r);
  r->is_moved = 1;
  for (uint32_t i = 0; i < r->n_nodes; i++) hiprt_recorder_moved(r, i, n_moves, moves, r->bytes + r->nodes[i].payload);
}

int hiprt_recorder_point(hiprt_recorder *r, hiprt_pointers *pointers, const uint64_t *starts) {
  r->is_moved = 1;
  const int is_known = r->pointers == pointers;
  const int status = is_known ? 0 : hiprt_recorder_keep_pointers(r, pointers, starts);
  if (status) return status;
  for (uint32_t m = 0; m < hiprt_pointers_memories(pointers); m++) {
    if (is_known && r->starts[m] == starts[m]) continue;
    uint32_t count;
    const hiprt_pointer *words = hiprt_pointers_into(pointers, m, &count);
    for (uint32_t i = 0; i < count; i++) {
      const uint64_t address = starts[m] + words[i].delta;
      memcpy(r->bytes + r->nodes[words[i].node].payload + words[i].offset, &address, sizeof address);
    }
    r->starts[m] = starts[m];
  }
  return 0;
}

void hiprt_recorder_set_payload(hiprt_recorder *r, uint32_t index, const void *payload) {
  const node *n = r->nodes + index;
  hiprt_recorder_forget_pointers(r);
  r->is_moved = 1;
  memcpy(r->bytes + n->payload, payload, n->payload_size);
}

char *hiprt_recorder_payload(hiprt_recorder *r, uint32_t index) {
  hiprt_recorder_forget_pointers(r); /* it is about to be changed */
  r->is_moved = 1;
  return r->bytes + r->nodes[index].payload;
}

const hiprt_pointers *hiprt_recorder_pointers(const hiprt_recorder *r, const uint64_t **out_starts) {
  *out_starts = r->starts;
  return r->pointers;
}
