#include "captured_match.h"

#include <string.h>

#include "addresses.h"
#include "recording.h"
#include "status.h"

static int refuse(const char *what) { return hiprt_fail(HIPRT_E_FOREIGN, "hiprt_flatten_like", what); }

int hiprt_captured_match_node(hiprt_captured_match *match, uint32_t kind, const hiprt_kernel *kernel, const void *payload,
                              uint32_t size) {
  static const char other[] = "other work than before";
  const uint32_t index = match->count++;
  hiprt_node n;
  if (index >= hiprt_recorder_size(match->like) || hiprt_recorder_node(match->like, index, &n)) return refuse(other);
  if (n.kind != kind || n.payload_size != size || kind == HIPRT_NODE_OPAQUE) return refuse(other);
  if (kernel && (n.kernel->function != kernel->function || memcmp(n.payload, payload, sizeof(hiprt_dims))))
    return refuse(other);
  if (!size || !memcmp(n.payload, payload, size)) return 0;
  const int status = match->varied ? 0 : hiprt_recorder_copy(match->like, &match->varied);
  if (!status) hiprt_recorder_set_payload(match->varied, index, payload);
  return status;
}

int hiprt_captured_match_deps(const hiprt_captured_match *match, uint32_t node, const uint32_t *deps, size_t n_deps,
                              int overlaps) {
  hiprt_node n;
  hiprt_recorder_node(match->like, node, &n);
  const int is_same = n.n_deps == n_deps && n.may_overlap == (uint32_t)overlaps &&
                      (!n_deps || !memcmp(n.deps, deps, n_deps * sizeof *deps));
  return is_same ? 0 : refuse("other edges than before");
}

void hiprt_captured_match_end(hiprt_captured_match *match, int status, hiprt_recorder **out_recorder) {
  *out_recorder = 0;
  if (status || match->count != hiprt_recorder_size(match->like)) {
    hiprt_recorder_release(match->varied);
    return;
  }
  *out_recorder = match->varied ? match->varied : (hiprt_recorder *)match->like;
}
