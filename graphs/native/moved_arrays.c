#include "moved_arrays.h"

#include <stdlib.h>
#include <string.h>

#include "room.h"
#include "status.h"

/* A buffer of a node, where it was when all were listed. */
typedef struct {
  hiprt_range range; /* of one byte at least: an empty buffer moves with the memory that it begins in */
  uint64_t reach; /* the last address of this and all entries before it */
  uint32_t node;
  uint32_t is_away; /* it belongs to a piece, which knows where it is */
} entry;

/* Memory that moved, or was to be moved: the entries [first, first + count) and no others begin in [start, end) now. */
typedef struct {
  uint64_t start, end, size; /* size: from the start to the end, or to that of a buffer that begins in it and reaches further */
  uint32_t first, count;
  int is_new; /* moved by the moves that are looked at now */
  uint64_t gap_start, gap_end; /* where no buffer lies but those of pieces, around where it went last */
} piece;

struct hiprt_placement {
  const hiprt_recorder *recorder;
  entry *entries; /* ascending by where they begin */
  uint32_t n_entries;
  piece *pieces;
  uint32_t n_pieces;
  size_t pieces_room;
  uint32_t *found; /* the piece of each move that was found last */
  size_t found_room;
  uint32_t *nodes;     /* room for all */
  uint32_t *seen, turn; /* of each node: the last search that listed it */
};

static int refuse(const char *why) { return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_step_move", why); }

static int by_start(const void *a, const void *b) {
  const hiprt_range x = ((const entry *)a)->range, y = ((const entry *)b)->range;
  return (x.start > y.start) - (x.start < y.start);
}

/* List the buffers of all nodes where they lie now. */
static int list(hiprt_placement *p) {
  uint64_t count = 0;
  const uint32_t size = hiprt_recorder_size(p->recorder);
  hiprt_node n;
  for (uint32_t i = 0; i < size; i++) {
    hiprt_recorder_node(p->recorder, i, &n);
    count += n.n_ranges + n.n_addresses;
  }
  entry *entries = realloc(p->entries, (count + 1) * sizeof *entries);
  if (!entries) return hiprt_fail(HIPRT_E_MEMORY, "hiprt_placement", 0);
  p->entries = entries;
  p->n_entries = p->n_pieces = 0;
  for (uint32_t i = 0; i < size; i++) {
    hiprt_recorder_node(p->recorder, i, &n);
    for (uint32_t k = 0; k < n.n_ranges; k++) {
      const uint64_t start = n.ranges[k].start, end = n.ranges[k].end;
      entries[p->n_entries++] = (entry){{start, end > start ? end : start + 1}, 0, i, 0};
    }
    for (uint32_t k = 0; k < n.n_addresses; k++) {
      uint64_t address;
      memcpy(&address, n.payload + n.addresses[k], sizeof address);
      entries[p->n_entries++] = (entry){{address, address + 1}, 0, i, 0};
    }
  }
  qsort(entries, p->n_entries, sizeof *entries, by_start);
  uint64_t reach = 0;
  for (uint32_t i = 0; i < p->n_entries; i++) {
    if (reach < entries[i].range.end) reach = entries[i].range.end;
    entries[i].reach = reach;
  }
  return 0;
}

int hiprt_placement_create(const hiprt_recorder *recorder, hiprt_placement **out_placement) {
  const uint32_t size = hiprt_recorder_size(recorder);
  hiprt_placement *p = calloc(1, sizeof *p);
  *out_placement = 0;
  if (p) {
    p->recorder = recorder;
    p->nodes = calloc(size + 1, sizeof *p->nodes);
    p->seen = calloc(size + 1, sizeof *p->seen);
  }
  const int status = !p || !p->nodes || !p->seen ? hiprt_fail(HIPRT_E_MEMORY, "hiprt_placement", 0) : list(p);
  if (status)
    hiprt_placement_release(p);
  else
    *out_placement = p;
  return status;
}

void hiprt_placement_release(hiprt_placement *p) {
  if (!p) return;
  free(p->entries);
  free(p->pieces);
  free(p->found);
  free(p->nodes);
  free(p->seen);
  free(p);
}

/* Return the first entry that begins at an address or behind it. */
static uint32_t entry_at(const hiprt_placement *p, uint64_t address) {
  uint32_t low = 0, high = p->n_entries;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (p->entries[middle].range.start >= address)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

/* Add a piece that lies where it was when all buffers were listed. */
static int add_piece(hiprt_placement *p, const hiprt_move *m, uint32_t *out_piece) {
  const int status = hiprt_room((void **)&p->pieces, p->n_pieces, 1, &p->pieces_room, sizeof *p->pieces, "hiprt_placement");
  if (status) return status;
  piece made = {m->start, m->end, m->end - m->start, entry_at(p, m->start), 0, 0, 0, 0};
  for (uint32_t i = made.first; i < p->n_entries && p->entries[i].range.start < m->end; i++, made.count++) {
    p->entries[i].is_away = 1;
    const uint64_t size = p->entries[i].range.end - m->start;
    if (made.size < size) made.size = size;
  }
  *out_piece = p->n_pieces;
  p->pieces[p->n_pieces++] = made;
  return 0;
}

/* Find the piece that a move names; `found` is UINT32_MAX where it is no piece and shares memory with one. */
static int find_piece(hiprt_placement *p, const hiprt_move *m, uint32_t *found) {
  *found = UINT32_MAX;
  for (uint32_t i = 0; i < p->n_pieces; i++) {
    const piece *each = p->pieces + i;
    if (each->start == m->start && each->end == m->end) {
      *found = i;
      return 0;
    }
    if (each->start < m->end && m->start < each->end) return 0;
  }
  for (uint32_t i = entry_at(p, m->start); i < p->n_entries && p->entries[i].range.start < m->end; i++)
    if (p->entries[i].is_away) return 0;
  return add_piece(p, m, found);
}

/* Find the pieces of all moves; *out_are_found is 0 where one is no piece and shares memory with some. */
static int find_pieces(hiprt_placement *p, uint32_t n_moves, const hiprt_move *moves, int *out_are_found) {
  int status = hiprt_room((void **)&p->found, 0, n_moves, &p->found_room, sizeof *p->found, "hiprt_placement");
  *out_are_found = 1;
  for (uint32_t i = 0; !status && *out_are_found && i < n_moves; i++) {
    status = find_piece(p, moves + i, p->found + i);
    *out_are_found = p->found[i] != UINT32_MAX;
  }
  return status;
}

/* Whether memory is free of buffers that belong to no piece. The gap that it lies in is noted: it stays one while there are these
 * pieces. */
static int is_gap(const hiprt_placement *p, piece *own, uint64_t start, uint64_t end) {
  if (own->gap_start <= start && end <= own->gap_end) return 1;
  const uint32_t behind = entry_at(p, end);
  uint32_t i = behind;
  for (; i > 0 && p->entries[i - 1].reach > start; i--)
    if (!p->entries[i - 1].is_away && p->entries[i - 1].range.end > start) return 0;
  own->gap_start = i < behind ? start : i ? p->entries[i - 1].reach : 0;
  own->gap_end = behind < p->n_entries ? p->entries[behind].range.start : UINT64_MAX;
  return 1;
}

/* Whether memory is free of all buffers and pieces but those that move now. */
static int is_free(const hiprt_placement *p, piece *own, uint64_t start, uint64_t end) {
  if (!is_gap(p, own, start, end)) return 0;
  for (uint32_t i = 0; i < p->n_pieces; i++) {
    const piece *each = p->pieces + i;
    if (!each->is_new && each->start < end && start < each->start + each->size) return 0;
  }
  return 1;
}

/* Whether each piece that moves comes to lie apart from all others. */
static int are_apart(const hiprt_placement *p, uint32_t n_moves, const hiprt_move *moves) {
  int is_apart = 1;
  for (uint32_t i = 0; i < n_moves; i++) p->pieces[p->found[i]].is_new = 1;
  for (uint32_t i = 0; is_apart && i < n_moves; i++) {
    piece *own = p->pieces + p->found[i];
    const uint64_t end = moves[i].to + own->size;
    is_apart = is_free(p, own, moves[i].to, end);
    for (uint32_t k = 0; k < i; k++)
      is_apart &= end <= moves[k].to || moves[k].to + p->pieces[p->found[k]].size <= moves[i].to;
  }
  for (uint32_t i = 0; i < n_moves; i++) p->pieces[p->found[i]].is_new = 0;
  return is_apart;
}

/* Find the pieces of all moves, and whether they may go where they are to. */
static int place(hiprt_placement *p, uint32_t n_moves, const hiprt_move *moves, int *out_may_go) {
  const int status = find_pieces(p, n_moves, moves, out_may_go);
  if (status || !*out_may_go) return status;
  for (uint32_t i = 0; i < n_moves; i++)
    if (moves[i].to > UINT64_MAX - p->pieces[p->found[i]].size)
      return refuse("memory, or a buffer that reaches behind its end, would end past the last address: `to` is too high");
  *out_may_go = are_apart(p, n_moves, moves);
  return 0;
}

/* List the nodes of the entries of a piece that were not listed before. */
static uint32_t list_nodes(hiprt_placement *p, const piece *each, uint32_t count) {
  for (uint32_t i = each->first; i < each->first + each->count; i++) {
    const uint32_t node = p->entries[i].node;
    if (p->seen[node] == p->turn) continue;
    p->seen[node] = p->turn;
    p->nodes[count++] = node;
  }
  return count;
}

int hiprt_placement_find(hiprt_placement *p, uint32_t n_moves, const hiprt_move *moves, uint32_t *out_count,
                         const uint32_t **out_nodes, uint64_t *out_bytes) {
  *out_count = 0;
  *out_bytes = 0;
  *out_nodes = p->nodes;
  for (uint32_t i = 0; i < n_moves; i++) {
    if (moves[i].start >= moves[i].end) return refuse("a move has no bytes: its `end` is one past the last, behind its `start`");
    if (i && moves[i].start < moves[i - 1].end) return refuse("the moves are not ascending and disjoint");
  }
  /* Pieces that no buffer begins in add up where other memory is named each time. */
  int may_go, status = p->n_pieces > p->n_entries + n_moves ? list(p) : 0;
  if (!status) status = place(p, n_moves, moves, &may_go);
  if (!status && !may_go) {
    /* What is in the way may be an earlier move alone, which is forgotten where all buffers are listed anew. */
    status = list(p);
    if (!status) status = place(p, n_moves, moves, &may_go);
    if (!status && !may_go) status = refuse("memory that the step uses otherwise, so that edges could change");
  }
  if (status) return status;
  p->turn++;
  uint32_t count = 0;
  for (uint32_t i = 0; i < n_moves; i++) count = list_nodes(p, p->pieces + p->found[i], count);
  hiprt_node n;
  for (uint32_t i = 0; i < count; i++) {
    hiprt_recorder_work(p->recorder, p->nodes[i], &n);
    *out_bytes += n.payload_size;
  }
  *out_count = count;
  return 0;
}

void hiprt_placement_move(hiprt_placement *p, uint32_t n_moves, const hiprt_move *moves) {
  for (uint32_t i = 0; i < n_moves; i++) {
    piece *each = p->pieces + p->found[i];
    each->start = moves[i].to;
    each->end = moves[i].to + (moves[i].end - moves[i].start);
  }
}
