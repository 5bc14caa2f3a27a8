/* Intermediates: the plan of memory that only the nodes of one recording use, by what they do with it.
 *
 * The caller owns what is returned. Called by the thread that records. */
#pragma once
#include "recorder.h"

enum { HIPRT_ALIGNMENT = 256 }; /* of each intermediate */

/* What a recording does with its intermediates: the words of hiprt_recorder_outline, which the caller frees. */
typedef struct {
  uint32_t *words;
  uint64_t count;
} hiprt_outline;

/* Find the outline of what is recorded; `out` has words to free also where this fails. */
int hiprt_intermediates_outline(const hiprt_recorder *recorder, uint32_t count, const hiprt_intermediate *all,
                                hiprt_outline *out);
/* Place intermediates by the outline of a recording with `nodes` nodes. */
int hiprt_intermediates_place(const hiprt_outline *outline, uint32_t nodes, uint32_t count, const hiprt_intermediate *all,
                              uint64_t *out_offsets, hiprt_plan *out_plan);
/* Plan the intermediates of what is recorded; see hiprt_step_plan. */
int hiprt_intermediates_plan(const hiprt_recorder *recorder, uint32_t count, const hiprt_intermediate *all,
                             uint64_t *out_offsets, hiprt_plan *out_plan);
