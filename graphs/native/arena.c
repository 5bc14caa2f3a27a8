#include "arena.h"

#include <stdlib.h>
#include <string.h>

#include "addresses.h"
#include "intermediates.h"
#include "pool.h"
#include "room.h"
#include "status.h"
#include "stream.h"

#define PROVISIONAL (1ull << 58) /* above every address of 57 bits, so that a stray access faults */
#define END (1ull << 63)

struct hiprt_arena {
  hiprt_pool *pool;
  const hiprt_step *step; /* whose intermediates these are; it is only compared */
  hiprt_stream *stream;   /* of the block, as the next; NULL before the first plan */
  hiprt_block *block;
  hiprt_intermediate *asked; /* since the last plan */
  uint32_t n_asked;
  size_t room;
  uint64_t next; /* the address of the next, behind the first */
  /* The last plan, what it was made of, and where it put the intermediates. */
  hiprt_plan plan;
  hiprt_outline planned;
  hiprt_intermediate *settled;
  uint64_t *offsets;
  uint32_t n_settled;
};

static int fail_for_memory(void) { return hiprt_fail(HIPRT_E_MEMORY, "hiprt_step_settle", 0); }

int hiprt_arena_create(hiprt_pool *pool, hiprt_arena **out_arena) {
  hiprt_arena *arena = *out_arena = calloc(1, sizeof *arena);
  if (!arena) return hiprt_fail(HIPRT_E_MEMORY, "hiprt_arena_create", 0);
  hiprt_pool_retain(pool);
  arena->pool = pool;
  return 0;
}

void hiprt_arena_release(hiprt_arena *arena) {
  if (!arena) return;
  hiprt_pool_free(arena->pool, arena->block);
  hiprt_pool_release(arena->pool);
  hiprt_stream_release(arena->stream);
  free(arena->asked);
  free(arena->planned.words);
  free(arena->settled);
  free(arena->offsets);
  free(arena);
}

int hiprt_arena_request(hiprt_arena *arena, uint64_t nbytes, int is_kept, uint64_t *out_address) {
  const char *const call = "hiprt_arena_request";
  const uint64_t start = arena->n_asked ? arena->next : PROVISIONAL;
  *out_address = 0;
  if (END - start < 2 * HIPRT_ALIGNMENT || nbytes > END - start - 2 * HIPRT_ALIGNMENT)
    return hiprt_fail(HIPRT_E_LIMIT, call, "no addresses are left");
  const int status = hiprt_room((void **)&arena->asked, arena->n_asked, 1, &arena->room, sizeof *arena->asked, call);
  if (status) return status;
  arena->asked[arena->n_asked++] = (hiprt_intermediate){start, start + nbytes, is_kept != 0, 0};
  arena->next = start + (nbytes + 2 * HIPRT_ALIGNMENT - 1) / HIPRT_ALIGNMENT * HIPRT_ALIGNMENT; /* with a gap behind it */
  *out_address = start;
  return 0;
}

/* Whether the last plan is one of the same work with the same intermediates. */
static int is_planned(const hiprt_arena *arena, const hiprt_outline *o) {
  return arena->settled && arena->n_settled == arena->n_asked && arena->planned.count == o->count &&
         !memcmp(arena->planned.words, o->words, o->count * sizeof *o->words) &&
         !memcmp(arena->settled, arena->asked, arena->n_asked * sizeof *arena->asked);
}

/* Plan what was asked, unless it is planned; the arena keeps the outline. */
static int plan(hiprt_arena *arena, const hiprt_recorder *recorder) {
  const uint32_t count = arena->n_asked;
  hiprt_plan made;
  hiprt_outline o;
  int status = hiprt_intermediates_outline(recorder, count, arena->asked, &o);
  if (status || is_planned(arena, &o)) {
    free(o.words);
    return status;
  }
  uint64_t *offsets = malloc(count * sizeof *offsets);
  hiprt_intermediate *settled = malloc(count * sizeof *settled);
  status = offsets && settled
               ? hiprt_intermediates_place(&o, hiprt_recorder_size(recorder), count, arena->asked, offsets, &made)
               : fail_for_memory();
  if (status) {
    free(o.words);
    free(offsets);
    free(settled);
    return status;
  }
  free(arena->planned.words);
  free(arena->offsets);
  free(arena->settled);
  memcpy(settled, arena->asked, count * sizeof *settled);
  arena->planned = o;
  arena->offsets = offsets;
  arena->settled = settled;
  arena->n_settled = count;
  arena->plan = made;
  return 0;
}

/* Have a block that holds the plan. */
static int hold(hiprt_arena *arena, hiprt_stream *stream, int *out_has_grown) {
  if (arena->block && arena->block->nbytes >= arena->plan.nbytes) return 0;
  hiprt_block *block;
  const int status = hiprt_pool_allocate(arena->pool, stream, arena->plan.nbytes, &block);
  if (status) return status;
  *out_has_grown = arena->block != 0;
  hiprt_pool_free(arena->pool, arena->block);
  arena->block = block;
  if (arena->stream) return 0;
  hiprt_stream_retain(stream);
  arena->stream = stream;
  return 0;
}

int hiprt_arena_settle(hiprt_arena *arena, const hiprt_step *step, hiprt_recorder *recorder, hiprt_stream *stream,
                       int *out_has_grown) {
  const char *const call = "hiprt_step_settle";
  *out_has_grown = 0;
  if (arena->step && arena->step != step) return hiprt_fail(HIPRT_E_ARGUMENT, call, "the arena is that of another step");
  if (arena->stream && arena->stream != stream)
    return hiprt_fail(HIPRT_E_ARGUMENT, call, "the arena's memory is that of another stream");
  if (!arena->n_asked) return 0;
  if (hiprt_recorder_foreign(recorder))
    return hiprt_fail(HIPRT_E_ARGUMENT, call, "work of other code may have the addresses too");
  arena->step = step;
  const uint32_t count = arena->n_asked;
  hiprt_move *moves = malloc(count * sizeof *moves);
  int status = moves ? plan(arena, recorder) : fail_for_memory();
  if (!status) status = hold(arena, stream, out_has_grown);
  for (uint32_t i = 0; !status && i < count; i++)
    moves[i] = (hiprt_move){arena->settled[i].start, arena->settled[i].end, arena->block->address + arena->offsets[i]};
  if (!status) hiprt_recorder_relocate(recorder, count, moves);
  if (status) arena->n_settled = 0;
  free(moves);
  arena->n_asked = 0;
  return status;
}

int hiprt_arena_find(const hiprt_arena *arena, uint64_t address, uint64_t *out_address) {
  uint32_t low = 0, high = arena->n_settled;
  *out_address = 0;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (arena->settled[middle].end < address) low = middle + 1;
    else high = middle;
  }
  if (!arena->block || low == arena->n_settled || address < arena->settled[low].start)
    return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_arena_find", "the last plan has nothing at the address");
  *out_address = arena->block->address + arena->offsets[low] + (address - arena->settled[low].start);
  return 0;
}

void hiprt_arena_count(const hiprt_arena *arena, hiprt_plan *out_plan) { *out_plan = arena->plan; }
