/* Matches: whether a captured graph is the work of a recording, node by node as the graph is read.
 *
 * The recording is borrowed; the copy is the match's until its end. Called by the thread that walks the graph. */
#pragma once
#include "recorder.h"

typedef struct {
  const hiprt_recorder *like;
  hiprt_recorder *varied; /* a copy of it, made for the first node that carries other arguments; NULL before */
  uint32_t count;         /* nodes compared so far */
} hiprt_captured_match;

/* Compare the next node, and keep arguments that differ. HIPRT_E_FOREIGN: it is other work. */
int hiprt_captured_match_node(hiprt_captured_match *match, uint32_t kind, const hiprt_kernel *kernel, const void *payload,
                              uint32_t size);
/* Compare the nodes that a node waits for, and whether it does so by itself. */
int hiprt_captured_match_deps(const hiprt_captured_match *match, uint32_t node, const uint32_t *deps, size_t n_deps,
                              int overlaps);
/* End a match, `status` being that of the nodes. *out_recorder: `like` itself, without a new reference, where all is the
 * same; the copy where some nodes carry other arguments; NULL where it is other work. */
void hiprt_captured_match_end(hiprt_captured_match *match, int status, hiprt_recorder **out_recorder);
