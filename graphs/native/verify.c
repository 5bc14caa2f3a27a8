#include "verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eager.h"
#include "status.h"

/* The memory that the nodes write: pieces that are ascending and disjoint, and room on the host for their bytes. */
typedef struct {
  hiprt_range *pieces;
  uint32_t count;
  uint64_t nbytes;
  char *before, *graph, *eager;
} memory;

static int refuse(const char *why) { return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_step_verify", why); }

static int ascending(const void *a, const void *b) {
  const hiprt_range *x = a, *y = b;
  return (x->start > y->start) - (x->start < y->start);
}

/* Join pieces that overlap. Those that touch may be of two allocations, which no copy crosses. */
static void merge(memory *m) {
  uint32_t kept = 0;
  if (m->count) qsort(m->pieces, m->count, sizeof *m->pieces, ascending);
  for (uint32_t i = 0; i < m->count; i++) {
    const hiprt_range piece = m->pieces[i];
    if (piece.start >= piece.end) continue;
    if (kept && piece.start < m->pieces[kept - 1].end) {
      if (m->pieces[kept - 1].end < piece.end) m->pieces[kept - 1].end = piece.end;
    } else {
      m->pieces[kept++] = piece;
    }
  }
  m->count = kept;
  for (uint32_t i = 0; i < kept; i++) m->nbytes += m->pieces[i].end - m->pieces[i].start;
}

static int list_written(memory *m, const hiprt_recorder *recorder) {
  uint32_t room = 0;
  for (uint32_t i = 0; i < hiprt_recorder_size(recorder); i++) {
    hiprt_node n;
    hiprt_recorder_node(recorder, i, &n);
    if (n.source) return refuse("work of other code does not tell what it writes");
    if (n.kernel && !n.kernel->n_written) return refuse("a kernel declares nothing that it writes");
    if (m->count + n.n_ranges > room) {
      room = 2 * room + n.n_ranges;
      hiprt_range *grown = realloc(m->pieces, room * sizeof *grown);
      if (!grown) return hiprt_fail(HIPRT_E_MEMORY, "hiprt_step_verify", 0);
      m->pieces = grown;
    }
    for (uint32_t k = 0; k < n.n_ranges; k++)
      if (n.access[k] & HIPRT_WRITE) m->pieces[m->count++] = n.ranges[k];
  }
  merge(m);
  m->before = malloc(m->nbytes + 1);
  m->graph = malloc(m->nbytes + 1);
  m->eager = malloc(m->nbytes + 1);
  return m->before && m->graph && m->eager ? 0 : hiprt_fail(HIPRT_E_MEMORY, "hiprt_step_verify", 0);
}

static void drop(memory *m) {
  free(m->pieces);
  free(m->before);
  free(m->graph);
  free(m->eager);
}

/* Copy all pieces to the host or from it, behind what is on the stream, and wait. */
static int copy(const memory *m, hiprt_stream *stream, char *host, int is_read) {
  uint64_t at = 0;
  for (uint32_t i = 0; i < m->count; i++) {
    const uint64_t address = m->pieces[i].start, nbytes = m->pieces[i].end - address, there = (uint64_t)(uintptr_t)(host + at);
    const int status = is_read ? hiprt_copy(stream, there, address, nbytes, hipMemcpyDeviceToHost)
                               : hiprt_copy(stream, address, there, nbytes, hipMemcpyHostToDevice);
    if (status) return status;
    at += nbytes;
  }
  return hiprt_stream_synchronize(stream);
}

/* Return where the bytes of a range, which lies in one piece, are on the host. */
static uint64_t place_of(const memory *m, hiprt_range range) {
  uint64_t at = 0;
  for (uint32_t i = 0; i < m->count; i++) {
    if (range.start < m->pieces[i].end) return at + (range.start - m->pieces[i].start);
    at += m->pieces[i].end - m->pieces[i].start;
  }
  return at;
}

/* Find the first node that differs in a byte which no later node has written over. */
static void find_first(memory *m, const hiprt_recorder *recorder, hiprt_mismatch *out) {
  for (uint32_t i = hiprt_recorder_size(recorder); i-- > 0;) {
    hiprt_node n;
    hiprt_recorder_node(recorder, i, &n);
    for (uint32_t k = 0; k < n.n_ranges; k++) {
      const uint64_t nbytes = n.ranges[k].end - n.ranges[k].start, at = place_of(m, n.ranges[k]);
      if (!(n.access[k] & HIPRT_WRITE) || n.ranges[k].start >= n.ranges[k].end) continue;
      uint64_t first = 0;
      while (first < nbytes && m->graph[at + first] == m->eager[at + first]) first++;
      if (first == nbytes) continue;
      out->node = i;
      out->differs = 1;
      out->address = n.ranges[k].start + first;
      snprintf(out->name, sizeof out->name, "%s", n.name ? n.name : n.kind == HIPRT_NODE_COPY ? "copy" : "fill");
      memcpy(m->graph + at, m->eager + at, nbytes);
    }
  }
}

static int compare(memory *m, hiprt_exec *exec, hiprt_recorder *recorder, hiprt_stream *stream, hiprt_mismatch *out,
                   int *out_ran) {
  int status = copy(m, stream, m->before, 1), ran;
  if (!status) status = hiprt_exec_launch(exec, stream, 1, out_ran);
  if (!status) status = copy(m, stream, m->graph, 1);
  if (!status) status = copy(m, stream, m->before, 0);
  if (!status) status = hiprt_recorder_run(recorder, stream, &ran);
  if (!status) status = copy(m, stream, m->eager, 1);
  if (!status) find_first(m, recorder, out);
  return status;
}

int hiprt_verify(hiprt_exec *exec, hiprt_recorder *recorder, hiprt_stream *stream, hiprt_mismatch *out, int *out_ran) {
  memory m = {0};
  *out = (hiprt_mismatch){0};
  *out_ran = 0;
  int status = list_written(&m, recorder);
  if (!status) status = compare(&m, exec, recorder, stream, out, out_ran);
  drop(&m);
  return status;
}
