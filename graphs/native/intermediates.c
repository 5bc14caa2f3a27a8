#include "intermediates.h"

#include <stdlib.h>

#include "interference.h"
#include "outline.h"
#include "status.h"

#define MOST (1ull << 62) /* bytes of all intermediates: sums with what aligns them are below 2^63 */

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

int hiprt_intermediates_outline(const hiprt_recorder *r, uint32_t count, const hiprt_intermediate *all, hiprt_outline *out) {
  hiprt_range *ranges = ranges_of(count, all);
  uint64_t room = 16ull * hiprt_recorder_size(r) + 64, needed = 0;
  int status = ranges ? 0 : fail_for_memory();
  *out = (hiprt_outline){0};
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
static void count_words(const hiprt_outline *o, uint32_t nodes, uint32_t *users, uint32_t *out_earlier,
                        uint32_t *out_in_place) {
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
static void read_words(const hiprt_outline *o, uint32_t nodes, const arrays *a) {
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
static int fill(const hiprt_outline *o, uint32_t size, uint32_t count, const hiprt_intermediate *all, arrays *a,
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

int hiprt_intermediates_place(const hiprt_outline *o, uint32_t nodes, uint32_t count, const hiprt_intermediate *all,
                              uint64_t *out_offsets, hiprt_plan *out) {
  arrays a = {0};
  hiprt_requests requests;
  hiprt_interference *interference = 0;
  hiprt_placed placed = {0};
  int64_t *offsets = zeros(count, sizeof *offsets);
  int status = offsets ? fill(o, nodes, count, all, &a, &requests) : fail_for_memory();
  if (!status) status = hiprt_interference_create(&requests, &interference);
  if (!status) status = hiprt_interference_place(interference, a.sizes, HIPRT_ALIGNMENT, offsets, &placed);
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

int hiprt_intermediates_plan(const hiprt_recorder *recorder, uint32_t count, const hiprt_intermediate *all,
                             uint64_t *out_offsets, hiprt_plan *out_plan) {
  hiprt_outline o;
  uint64_t left = MOST;
  *out_plan = (hiprt_plan){0};
  for (uint32_t i = 0; i < count; i++) {
    if (all[i].start > all[i].end || (i && all[i].start < all[i - 1].end))
      return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_step_plan", "the intermediates are not ascending and disjoint");
    if (all[i].end - all[i].start > left)
      return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_step_plan", "the intermediates have more bytes than 2^62: an end is wrong");
    left -= all[i].end - all[i].start;
  }
  int status = hiprt_intermediates_outline(recorder, count, all, &o);
  if (!status) status = hiprt_intermediates_place(&o, hiprt_recorder_size(recorder), count, all, out_offsets, out_plan);
  free(o.words);
  return status;
}

