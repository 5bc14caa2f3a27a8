#include "explain.h"

#include <string.h>

#include "compare.h"

static const char *name_of(const hiprt_node *n) {
  static const char *const kinds[] = {"kernel", "copy", "fill", "barrier", "kernel"};
  return n->name ? n->name : kinds[n->kind];
}

static void add_launch(hiprt_text *out, const hiprt_node *n) {
  hiprt_text_add(out, "%s", name_of(n));
  if (!n->function) return;
  hiprt_dims d;
  memcpy(&d, n->payload, sizeof d);
  hiprt_text_add(out, ", %ux%ux%u blocks of %ux%ux%u threads, %u bytes shared", d.grid[0], d.grid[1], d.grid[2], d.block[0],
                 d.block[1], d.block[2], d.shared);
}

static int is_same_launch(const hiprt_node *a, const hiprt_node *b) {
  if (a->kind != b->kind || a->function != b->function) return 0;
  return !a->function || !memcmp(a->payload, b->payload, sizeof(hiprt_dims));
}

/* Say which argument of a kernel, or what of a copy or a fill, differs; both are the same launch. */
static void add_argument(hiprt_text *out, const hiprt_node *a, const hiprt_node *b) {
  static const char *const words[] = {"dst", "src", "nbytes"};
  for (uint32_t i = 0; a->kernel && i < a->kernel->n_args; i++) {
    const size_t at = sizeof(hiprt_dims) + a->kernel->offsets[i], size = a->kernel->args[i].size;
    if (!memcmp(a->payload + at, b->payload + at, size)) continue;
    hiprt_text_add(out, " argument %u: ", i);
    hiprt_text_add_bytes(out, a->payload + at, (uint32_t)size);
    hiprt_text_add(out, " -> ");
    hiprt_text_add_bytes(out, b->payload + at, (uint32_t)size);
    return;
  }
  for (uint32_t i = 0; a->kind == HIPRT_NODE_COPY && i < 3; i++) {
    if (!memcmp(a->payload + 8 * i, b->payload + 8 * i, 8)) continue;
    hiprt_text_add(out, " %s: ", words[i]);
    hiprt_text_add_bytes(out, a->payload + 8 * i, 8);
    hiprt_text_add(out, " -> ");
    hiprt_text_add_bytes(out, b->payload + 8 * i, 8);
    return;
  }
  if (a->kind == HIPRT_NODE_FILL) {
    hiprt_fill_args x, y;
    memcpy(&x, a->payload, sizeof x);
    memcpy(&y, b->payload, sizeof y);
    hiprt_text_add(out, ": %llu elements of %u bytes at 0x%llx, value 0x%x -> %llu of %u at 0x%llx, value 0x%x",
                   (unsigned long long)x.count, x.width, (unsigned long long)x.dst, x.value, (unsigned long long)y.count,
                   y.width, (unsigned long long)y.dst, y.value);
  } else {
    hiprt_text_add(out, ": its arguments, which the HIP library does not tell");
  }
}

void hiprt_explain(const hiprt_recorder *before, const hiprt_recorder *now, hiprt_text *out) {
  const uint32_t was = hiprt_recorder_size(before), is = hiprt_recorder_size(now), both = was < is ? was : is;
  const int is_same_key = hiprt_recorder_same_key(before, now);
  hiprt_node a, b;
  for (uint32_t i = 0; i < both; i++) {
    hiprt_recorder_node(before, i, &a);
    hiprt_recorder_node(now, i, &b);
    if (!is_same_launch(&a, &b)) {
      hiprt_text_add(out, "node %u: ", i);
      add_launch(out, &a);
      hiprt_text_add(out, " -> ");
      add_launch(out, &b);
      return;
    }
    const int has_deps = a.n_deps || b.n_deps;
    if (has_deps && (a.n_deps != b.n_deps || memcmp(a.deps, b.deps, a.n_deps * sizeof *a.deps))) {
      hiprt_text_add(out, "node %u (%s) waits for other nodes than before", i, name_of(&a));
      return;
    }
    const size_t size = a.kernel ? sizeof(hiprt_dims) + a.kernel->args_size : a.payload_size;
    if (is_same_key && size && memcmp(a.payload, b.payload, size)) {
      hiprt_text_add(out, "node %u (%s)", i, name_of(&a));
      add_argument(out, &a, &b);
      return;
    }
  }
  if (was == is) return;
  hiprt_recorder_node(was < is ? now : before, both, &a);
  hiprt_text_add(out, "node %u: ", both);
  add_launch(out, &a);
  hiprt_text_add(out, was < is ? " is launched besides" : " is not launched any more");
}
