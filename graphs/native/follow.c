#include "follow.h"

#include "recorder_nodes.h"

void hiprt_recorder_follow(hiprt_recorder *r, hiprt_recorder *like) {
  if (r->n_nodes || r->like || like->is_moved || like->edges != r->edges) return;
  if (r->max_bytes && declared_bytes(like) >= r->max_bytes) return;
  if (hiprt_recorder_reserve(r, like)) return;
  hiprt_recorder_retain(like);
  r->like = like;
  r->declared = declared_bytes(like);
  r->wired = hiprt_deps_retain(like->tracked == like->n_nodes ? like->tracker : like->wired);
}

void hiprt_recorder_end(hiprt_recorder *r) {
  if (r->like && r->n_nodes == r->like->n_nodes) r->alike = r->like->alike;
  hiprt_recorder_release(r->like);
  r->like = 0;
}

void hiprt_recorder_leave(hiprt_recorder *r) {
  hiprt_recorder_release(r->like);
  r->like = 0;
  hiprt_deps_release(r->wired);
  r->wired = 0;
}
