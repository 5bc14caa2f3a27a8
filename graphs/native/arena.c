#include "arena.h"

#include <stdlib.h>
#include <string.h>

#include "outline.h"
#include "pool.h"
#include "status.h"
#include "interference.h"

enum { ALIGNMENT = 256 };

#define PROVISIONAL (1ull << 58) /* above every address of 57 bits, so that a stray access faults */
#define END (1ull << 63)

/* What a recording does with its intermediates: the words of hiprt_recorder_outline. */
typedef struct {
  uint32_t *words;
  uint64_t count;
} outline;

struct hiprt_arena {
  hiprt_pool *pool;
  const hiprt_step *step; /* whose intermediates these are; it is only compared */
  hiprt_stream *stream;   /* of the block, as the next; NULL before the first plan */
  hiprt_block *block;
  hiprt_intermediate *asked; /* since the last plan */
  uint32_t n_asked, room;
  uint64_t next; /* the address of the next, behind the first */
  /* The last plan, what it was made of, and where it put the intermediates. */
  hiprt_plan plan;
  outline planned;
  hiprt_intermediate *settled;
  uint64_t *offsets;
  uint32_t n_settled;
};

/* What a plan is made of, in the arrays that hiprt_requests shows. */
typedef struct {
  int64_t *sizes;
  uint8_t *is_result;
  uint32_t *next; /* by intermediate: where its next user goes */
  uint32_t *user_begins, *users, *earlier_begins, *earlier, *in_place;
} arrays;

static int fail_for_memory(void) { return hiprt_fail(HIPRT_E_MEMORY, "hiprt_step_plan", 0); }

static hiprt_range *ranges_of(uint32_t count, const hiprt_intermediate *all) {
  hiprt_range *ranges = malloc(((size_t)count + 1) * sizeof *ranges);
  for (uint32_t i = 0; ranges && i < count; i++) ranges[i] = (hiprt_range){all[i].start, all[i].end};
  return ranges;
}

static int write_outline(const hiprt_recorder *r, uint32_t count, const hiprt_intermediate *all, outline *out) {
  hiprt_range *ranges = ranges_of(count, all);
  uint64_t room = 16ull * hiprt_recorder_size(r) + 64, needed = 0;
  int status = ranges ? 0 : fail_for_memory();
  *out = (outline){0};
  while (!status) {
    uint32_t *words = realloc(out->words, room * sizeof *words);
    if (!words) {
      status = fail_for_memory();
      break;
    }
    out->words = words;
    needed = hiprt_recorder_outline(r, count, ranges, words, room);
    if (needed <= room) break;
    room = 2 * needed;
  }
  out->count = needed;
  free(ranges);
  return status;
}

/* Return where the list behind the one at `words` begins, which has `per` words for each entry. */
static const uint32_t *behind(const uint32_t *words, uint32_t per) { return words + 1 + (size_t)per * words[0]; }

/* Count what the outline lists: the users of each intermediate, what nodes wait for, and what may be written in place. */
static void count_words(const outline *o, uint32_t nodes, uint32_t *users, uint32_t *out_earlier, uint32_t *out_in_place) {
  const uint32_t *at = o->words;
  for (uint32_t node = 0; node < nodes; node++) {
    for (uint32_t k = 1; k <= at[0]; k++) users[at[k]]++;
    at = behind(at, 1);
    *out_earlier += at[0];
    at = behind(at, 1);
    *out_in_place += at[0];
    at = behind(at, 2);
  }
}

/* Read the outline into arrays that have room. */
static void read_words(const outline *o, uint32_t nodes, const arrays *a) {
  const uint32_t *at = o->words;
  uint32_t earlier = 0, in_place = 0;
  for (uint32_t node = 0; node < nodes; node++) {
    for (uint32_t k = 1; k <= at[0]; k++) a->users[a->next[at[k]]++] = node;
    at = behind(at, 1);
    for (uint32_t k = 1; k <= at[0]; k++) a->earlier[earlier++] = at[k];
    a->earlier_begins[node + 1] = earlier;
    at = behind(at, 1);
    for (uint32_t k = 0; k < at[0]; k++) {
      a->in_place[in_place++] = node;
      a->in_place[in_place++] = at[1 + 2 * k];
      a->in_place[in_place++] = at[2 + 2 * k];
    }
    at = behind(at, 2);
  }
}

static int by_three(const void *one, const void *other) {
  const uint32_t *a = one, *b = other;
  for (int i = 0; i < 3; i++)
    if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
  return 0;
}

static void *zeros(size_t count, size_t size) { return calloc(count + 1, size); }

/* Fill the arrays, which *out shows. */
static int fill(const outline *o, uint32_t size, uint32_t count, const hiprt_intermediate *all, arrays *a,
                hiprt_requests *out) {
  const uint32_t nodes = size ? size : 1;
  uint32_t n_earlier = 0, n_in_place = 0, n_users = 0;
  a->next = zeros(count, sizeof *a->next);
  a->user_begins = zeros(count, sizeof *a->user_begins);
  a->sizes = zeros(count, sizeof *a->sizes);
  a->is_result = zeros(count, sizeof *a->is_result);
  a->earlier_begins = zeros(nodes, sizeof *a->earlier_begins);
  if (!a->next || !a->user_begins || !a->sizes || !a->is_result || !a->earlier_begins) return fail_for_memory();
  count_words(o, size, a->next, &n_earlier, &n_in_place);
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t users = a->next[i];
    a->next[i] = a->user_begins[i] = n_users;
    a->is_result[i] = all[i].is_kept != 0;
    a->sizes[i] = (int64_t)(all[i].end - all[i].start);
    n_users += users || !all[i].is_kept ? users : 1;
  }
  a->user_begins[count] = n_users;
  a->users = zeros(n_users, sizeof *a->users);
  a->earlier = zeros(n_earlier, sizeof *a->earlier);
  a->in_place = zeros(3 * (size_t)n_in_place, sizeof *a->in_place);
  if (!a->users || !a->earlier || !a->in_place) return fail_for_memory();
  /* What is kept and touched by no node is read behind the last one. */
  for (uint32_t i = 0; i < n_users; i++) a->users[i] = nodes - 1;
  read_words(o, size, a);
  qsort(a->in_place, n_in_place, 3 * sizeof *a->in_place, by_three);
  *out = (hiprt_requests){count,          nodes,    n_in_place,        a->sizes,   a->is_result,
                          a->user_begins, a->users, a->earlier_begins, a->earlier, a->in_place};
  return 0;
}

/* Place intermediates by what the nodes do with them. */
static int place(const outline *o, uint32_t nodes, uint32_t count, const hiprt_intermediate *all, uint64_t *out_offsets,
                 hiprt_plan *out) {
  arrays a = {0};
  hiprt_requests requests;
  hiprt_interference *interference = 0;
  hiprt_placed placed = {0};
  int64_t *offsets = zeros(count, sizeof *offsets);
  int status = offsets ? fill(o, nodes, count, all, &a, &requests) : fail_for_memory();
  if (!status) status = hiprt_interference_create(&requests, &interference);
  if (!status) status = hiprt_interference_place(interference, a.sizes, ALIGNMENT, offsets, &placed);
  *out = (hiprt_plan){(uint64_t)placed.nbytes, (uint64_t)placed.lower_bound, 0, count};
  for (uint32_t i = 0; !status && i < count; i++) {
    out_offsets[i] = (uint64_t)offsets[i];
    out->requested += (uint64_t)a.sizes[i];
  }
  hiprt_interference_release(interference);
  void *const all_arrays[] = {a.sizes, a.is_result, a.next,     a.user_begins, a.users, a.earlier_begins,
                              a.earlier, a.in_place, offsets};
  for (size_t i = 0; i < sizeof all_arrays / sizeof *all_arrays; i++) free(all_arrays[i]);
  return status;
}

int hiprt_recorder_plan(const hiprt_recorder *recorder, uint32_t count, const hiprt_intermediate *all, uint64_t *out_offsets,
                        hiprt_plan *out_plan) {
  outline o;
  *out_plan = (hiprt_plan){0};
  for (uint32_t i = 0; i < count; i++)
    if (all[i].start > all[i].end || all[i].end - all[i].start > INT64_MAX / 2 || (i && all[i].start < all[i - 1].end))
      return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_step_plan", "the intermediates are not ascending and disjoint");
  int status = write_outline(recorder, count, all, &o);
  if (!status) status = place(&o, hiprt_recorder_size(recorder), count, all, out_offsets, out_plan);
  free(o.words);
  return status;
}

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
  const uint64_t start = arena->n_asked ? arena->next : PROVISIONAL;
  *out_address = 0;
  if (nbytes > END - start - 2 * ALIGNMENT)
    return hiprt_fail(HIPRT_E_LIMIT, "hiprt_arena_request", "no addresses are left");
  if (arena->n_asked == arena->room) {
    const uint32_t room = arena->room ? 2 * arena->room : 64;
    hiprt_intermediate *grown = realloc(arena->asked, room * sizeof *grown);
    if (!grown) return hiprt_fail(HIPRT_E_MEMORY, "hiprt_arena_request", 0);
    arena->asked = grown;
    arena->room = room;
  }
  arena->asked[arena->n_asked++] = (hiprt_intermediate){start, start + nbytes, is_kept != 0, 0};
  arena->next = start + (nbytes + 2 * ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; /* with a gap behind it */
  *out_address = start;
  return 0;
}

/* Whether the last plan is one of the same work with the same intermediates. */
static int is_planned(const hiprt_arena *arena, const outline *o) {
  return arena->settled && arena->n_settled == arena->n_asked && arena->planned.count == o->count &&
         !memcmp(arena->planned.words, o->words, o->count * sizeof *o->words) &&
         !memcmp(arena->settled, arena->asked, arena->n_asked * sizeof *arena->asked);
}

/* Plan what was asked, unless it is planned; the arena keeps the outline. */
static int plan(hiprt_arena *arena, const hiprt_recorder *recorder) {
  const uint32_t count = arena->n_asked;
  hiprt_plan made;
  outline o;
  int status = write_outline(recorder, count, arena->asked, &o);
  if (status || is_planned(arena, &o)) {
    free(o.words);
    return status;
  }
  uint64_t *offsets = malloc(count * sizeof *offsets);
  hiprt_intermediate *settled = malloc(count * sizeof *settled);
  status = offsets && settled ? place(&o, hiprt_recorder_size(recorder), count, arena->asked, offsets, &made) : fail_for_memory();
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
