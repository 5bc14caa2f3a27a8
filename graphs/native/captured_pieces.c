#include "captured_pieces.h"

#include <stdlib.h>
#include <string.h>

#include "room.h"

int hiprt_pieces_append(hiprt_pieces *all, uint32_t kind, hipGraphNode_t source, hiprt_kernel *kernel, const void *payload,
                        uint32_t size) {
  if (all->match) {
    const int status = hiprt_captured_match_node(all->match, kind, kernel, payload, size);
    all->count++;
    hiprt_kernel_release(kernel);
    return status;
  }
  void *copy = malloc(size ? size : 1);
  int status = copy ? 0 : hiprt_fail(HIPRT_E_MEMORY, "hiprt_flatten", 0);
  if (!status) status = hiprt_room((void **)&all->pieces, all->count, 1, &all->room, sizeof *all->pieces, "hiprt_flatten");
  if (status) {
    free(copy);
    hiprt_kernel_release(kernel);
    return status;
  }
  if (size) memcpy(copy, payload, size);
  all->pieces[all->count++] = (hiprt_piece){kind, source, kernel, copy, size, {0, 0}, 0};
  return 0;
}

char *hiprt_pieces_blank(hiprt_pieces *all, uint32_t size) {
  if (size > all->payload_room) {
    char *grown = realloc(all->payload, size);
    if (!grown) return 0;
    all->payload = grown;
    all->payload_room = size;
  }
  return memset(all->payload, 0, size);
}

static int reserve_links(hiprt_pieces *all, size_t count) {
  return hiprt_room((void **)&all->links, all->n_links, count, &all->links_room, sizeof *all->links, "hiprt_flatten");
}

/* Append to the last list what lies in memory that does not move. */
static void put_links(hiprt_pieces *all, hiprt_span *out, const uint32_t *items, size_t count) {
  if (count) memcpy(all->links + all->n_links, items, count * sizeof *items);
  all->n_links += count;
  out->count += count;
}

int hiprt_pieces_link(hiprt_pieces *all, hiprt_span *out, const uint32_t *items, size_t count) {
  const int status = reserve_links(all, count);
  if (!status) put_links(all, out, items, count);
  return status;
}

int hiprt_pieces_link_all(hiprt_pieces *all, hiprt_span *out, hiprt_span list) {
  const int status = reserve_links(all, list.count);
  if (!status && list.count) put_links(all, out, all->links + list.start, list.count);
  return status;
}

static int ascending(const void *a, const void *b) {
  const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

void hiprt_pieces_tidy(hiprt_pieces *all, hiprt_span *list) {
  uint32_t *links = all->links + list->start;
  size_t kept = 0;
  if (list->count > 1) qsort(links, list->count, sizeof *links, ascending);
  for (size_t i = 0; i < list->count; i++)
    if (!i || links[i] != links[kept - 1]) links[kept++] = links[i];
  list->count = kept;
  all->n_links = list->start + kept;
}

int hiprt_pieces_set_deps(hiprt_pieces *all, hiprt_span deps, int overlaps) {
  const uint32_t last = (uint32_t)all->count - 1;
  if (all->match)
    return hiprt_captured_match_deps(all->match, last, deps.count ? all->links + deps.start : 0, deps.count, overlaps);
  all->pieces[last].deps = deps;
  all->pieces[last].overlaps = overlaps;
  return 0;
}

int hiprt_pieces_claim(const hiprt_pieces *all, hiprt_captured *captured) {
  int status = 0;
  for (size_t i = 0; !status && i < all->count; i++) {
    if (all->pieces[i].kind == HIPRT_NODE_COPY) {
      const hiprt_copy_args *c = all->pieces[i].payload;
      status = hiprt_captured_claim(captured, hiprt_copy_source(c), HIPRT_READ);
      if (!status) status = hiprt_captured_claim(captured, hiprt_copy_target(c), HIPRT_WRITE);
    } else if (all->pieces[i].kind == HIPRT_NODE_FILL) {
      status = hiprt_captured_claim(captured, hiprt_fill_target(all->pieces[i].payload), HIPRT_WRITE);
    }
  }
  return status;
}

int hiprt_pieces_record(const hiprt_pieces *all, hiprt_recorder *r, hiprt_captured *captured) {
  for (size_t i = 0; i < all->count; i++) {
    const hiprt_piece *p = all->pieces + i;
    const uint32_t *deps = all->keeps_edges ? all->links + p->deps.start : 0;
    int status = hiprt_recorder_add_captured(r, p->kind, p->kernel, p->payload, p->size, captured, p->source, deps,
                                             (uint32_t)p->deps.count, p->overlaps);
    if (status) return status;
  }
  return 0;
}

void hiprt_pieces_drop(hiprt_pieces *all) {
  for (size_t i = 0; all->pieces && i < all->count; i++) {
    hiprt_kernel_release(all->pieces[i].kernel);
    free(all->pieces[i].payload);
  }
  for (uint32_t i = 0; i < all->n_known; i++) hiprt_kernel_release(all->known[i].kernel);
  free(all->pieces);
  free(all->payload);
  free(all->links);
}
