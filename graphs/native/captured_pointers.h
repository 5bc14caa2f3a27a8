/* Captured pointers: which words of the nodes' arguments are addresses of memory that others move, and where in it they point.
 *
 * Recordings that were pointed by the same table differ where their memory begins elsewhere, and nowhere else: two of them
 * are compared without a look at their arguments.
 *
 * A table is counted by references. Behind hiprt_pointers_bind it does not change, and any thread may read it. */
#pragma once
#include <stdint.h>

/* cffi begin */
typedef struct hiprt_pointers hiprt_pointers;

/* A word of a node's arguments that is an address: `offset` bytes from the start of the payload, it lies `delta` bytes from
 * where memory number `memory` begins. */
typedef struct {
  uint32_t node, offset, memory, zero;
  uint64_t delta;
} hiprt_pointer;

/* Make a table of words; it copies them. */
int hiprt_pointers_create(uint32_t n_memories, uint32_t n_pointers, const hiprt_pointer *pointers,
                          hiprt_pointers **out_pointers);
void hiprt_pointers_release(hiprt_pointers *pointers);
/* Say where each memory must begin, or UINT64_MAX where it may be anywhere, and the memory that begins where it does, which
 * may be itself. Nobody else uses the table meanwhile. */
void hiprt_pointers_bind(hiprt_pointers *pointers, const uint64_t *places, const uint32_t *beside);
/* cffi end */

/* Whether memory that begins at `starts` is as it was said that it must be. */
int hiprt_pointers_may_move(const hiprt_pointers *pointers, const uint64_t *starts);
/* Return the table itself, with one more reference; NULL for NULL. */
hiprt_pointers *hiprt_pointers_retain(hiprt_pointers *pointers);
uint32_t hiprt_pointers_memories(const hiprt_pointers *pointers);
/* Return the words that point into a memory, by node; *out_count says how many they are. */
const hiprt_pointer *hiprt_pointers_into(const hiprt_pointers *pointers, uint32_t memory, uint32_t *out_count);
