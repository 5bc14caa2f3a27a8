/* Pieces: the nodes of a captured graph as they will be in a recording, while the graph is walked.
 *
 * All zeros is an empty list; who walks the graph owns it and drops it. Each piece holds a reference to its kernel and a copy
 * of its payload. With a match, nodes are compared with those of a recording as they come, and no pieces are kept. Called by
 * the thread that takes the captured work. */
#pragma once
#include "captured_match.h"
#include "recording.h"
#include "status.h"

/* A list of pieces, as a part of hiprt_pieces.links. */
typedef struct {
  size_t start, count;
} hiprt_span;

typedef struct {
  uint32_t kind;
  hipGraphNode_t source;
  hiprt_kernel *kernel;
  void *payload;
  uint32_t size;
  hiprt_span deps; /* the pieces that it waits for, where edges are kept */
  int overlaps;    /* its kernel waits for them by itself */
} hiprt_piece;

enum { HIPRT_MOST_KNOWN = 64 };

typedef struct {
  hiprt_piece *pieces;
  size_t count, room;          /* with a match, only nodes are counted */
  hiprt_captured_match *match; /* what the graph's nodes are compared with; NULL: they become pieces */
  char *payload;               /* room for one that is being made */
  uint32_t payload_room;
  uint64_t from, to; /* addresses that are not final: work that was given one is refused */
  int keeps_edges;   /* edges are the graph's own; else they follow from what the work touches */
  struct {
    const void *func; /* as captured nodes have it */
    hiprt_kernel *kernel;
  } known[HIPRT_MOST_KNOWN]; /* earlier kernels: libraries launch a few again and again */
  uint32_t n_known;
  uint32_t *links; /* lists of pieces, ascending, which spans are parts of */
  size_t n_links, links_room;
} hiprt_pieces;

/* Append a piece; it takes over the reference to the kernel, and copies the payload. */
int hiprt_pieces_append(hiprt_pieces *all, uint32_t kind, hipGraphNode_t source, hiprt_kernel *kernel, const void *payload,
                        uint32_t size);
/* Return room for a payload, all zeros, until the next call; NULL if there is no memory. */
char *hiprt_pieces_blank(hiprt_pieces *all, uint32_t size);
/* Append pieces to a list that begins where `out` says, which is the last one. */
int hiprt_pieces_link(hiprt_pieces *all, hiprt_span *out, const uint32_t *items, size_t count);
/* Append the pieces of another list. */
int hiprt_pieces_link_all(hiprt_pieces *all, hiprt_span *out, hiprt_span list);
/* Sort the last list, and keep each piece once. */
void hiprt_pieces_tidy(hiprt_pieces *all, hiprt_span *list);
/* Keep what the last piece waits for, and whether it does so by itself, or compare it. */
int hiprt_pieces_set_deps(hiprt_pieces *all, hiprt_span deps, int overlaps);
/* Say what copies and fills among the pieces touch. */
int hiprt_pieces_claim(const hiprt_pieces *all, hiprt_captured *captured);
/* Make nodes of all pieces, which keep the captured graph from here on. */
int hiprt_pieces_record(const hiprt_pieces *all, hiprt_recorder *recorder, hiprt_captured *captured);
void hiprt_pieces_drop(hiprt_pieces *all);

static inline int hiprt_pieces_is_provisional(const hiprt_pieces *all, uint64_t address) {
  return all->from <= address && address < all->to;
}

/* Fail for work that cannot be a node. */
static inline int hiprt_pieces_refuse(const char *what) { return hiprt_fail(HIPRT_E_FOREIGN, "hipStreamEndCapture", what); }
