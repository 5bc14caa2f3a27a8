#include "dump.h"

#include <string.h>

static void add_numbers(hiprt_text *out, const char *name, const uint32_t *numbers, uint32_t count) {
  hiprt_text_add(out, ", \"%s\": [", name);
  for (uint32_t i = 0; i < count; i++) hiprt_text_add(out, "%s%u", i ? ", " : "", numbers[i]);
  hiprt_text_add(out, "]");
}

static void add_arguments(hiprt_text *out, const hiprt_node *n) {
  hiprt_text_add(out, ", \"arguments\": [");
  for (uint32_t i = 0; n->kernel && i < n->kernel->n_args; i++) {
    hiprt_text_add(out, "%s\"", i ? ", " : "");
    hiprt_text_add_bytes(out, n->payload + sizeof(hiprt_dims) + n->kernel->offsets[i], n->kernel->args[i].size);
    hiprt_text_add(out, "\"");
  }
  hiprt_text_add(out, "]");
}

static void add_accesses(hiprt_text *out, const hiprt_node *n) {
  static const char *const words[] = {"none", "read", "write", "update"};
  unsigned long long read = 0, written = 0;
  hiprt_text_add(out, ", \"accesses\": [");
  for (uint32_t k = 0; k < n->n_ranges; k++) {
    const unsigned long long start = n->ranges[k].start, end = n->ranges[k].end;
    read += n->access[k] & HIPRT_READ ? end - start : 0;
    written += n->access[k] & HIPRT_WRITE ? end - start : 0;
    hiprt_text_add(out, "%s{\"buffer\": \"buffer %u\", \"access\": \"%s\", \"start\": %llu, \"end\": %llu}", k ? ", " : "", k,
                   words[n->access[k] & 3], start, end);
  }
  hiprt_text_add(out, "], \"bytes_read\": %llu, \"bytes_written\": %llu", read, written);
}

static void add_node(hiprt_text *out, const hiprt_node *n, uint32_t index) {
  static const char *const kinds[] = {"kernel", "copy", "fill", "empty", "kernel"};
  hiprt_dims dims = {.shared = 0};
  if (n->function) memcpy(&dims, n->payload, sizeof dims);
  hiprt_text_add(out, "%s\n  {\"index\": %u, \"node_type\": \"%s\", \"kernel_name\": ", index ? "," : "", index, kinds[n->kind]);
  hiprt_text_add_string(out, n->name ? n->name : kinds[n->kind]);
  add_numbers(out, "grid", dims.grid, 3);
  add_numbers(out, "block", dims.block, 3);
  hiprt_text_add(out, ", \"shared_bytes\": %u, \"is_foreign\": %s", dims.shared, n->source ? "true" : "false");
  add_arguments(out, n);
  add_accesses(out, n);
  add_numbers(out, "dependencies", n->deps, n->n_deps);
  hiprt_text_add(out, "}");
}

void hiprt_dump(const hiprt_recorder *recorder, const char *name, hiprt_text *out) {
  const uint32_t size = hiprt_recorder_size(recorder);
  hiprt_text_add(out, "{\"name\": ");
  hiprt_text_add_string(out, name);
  hiprt_text_add(out, ", \"key\": \"%016llx\", \"nodes\": [", (unsigned long long)hiprt_recorder_key(recorder));
  for (uint32_t i = 0; i < size; i++) {
    hiprt_node n;
    hiprt_recorder_node(recorder, i, &n);
    add_node(out, &n, i);
  }
  hiprt_text_add(out, "], \"edges\": [");
  for (uint32_t i = 0, count = 0; i < size; i++) {
    hiprt_node n;
    hiprt_recorder_node(recorder, i, &n);
    for (uint32_t k = 0; k < n.n_deps; k++, count++)
      hiprt_text_add(out, "%s{\"before\": %u, \"after\": %u}", count ? ", " : "", n.deps[k], i);
  }
  hiprt_text_add(out, "]}\n");
}
