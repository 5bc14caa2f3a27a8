#include "flatten.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attributes.h"
#include "capture.h"
#include "captured_match.h"
#include "status.h"

#define MOST_KNOWN 64

/* A list within pieces.links. */
typedef struct {
  size_t start, count;
} span;

/* A captured node as it will be in the recording. */
typedef struct {
  uint32_t kind;
  hipGraphNode_t source;
  hiprt_kernel *kernel;
  void *payload;
  uint32_t size;
  span deps; /* the pieces that it waits for, where edges are kept */
} piece;

typedef struct {
  piece *pieces;
  size_t count, capacity; /* with a match, nodes are counted and no pieces are kept */
  hiprt_captured_match *match; /* what the graph's nodes are compared with; NULL: they become pieces */
  char *payload;              /* room for one, which is given zeros */
  uint32_t room;
  uint64_t from, to; /* addresses that are not final */
  int keeps_edges;   /* the graph's own; else they follow from what the work touches */
  struct {
    const void *func; /* as captured nodes have it */
    hiprt_kernel *kernel;
  } known[MOST_KNOWN]; /* earlier kernels: libraries launch a few again and again */
  uint32_t n_known;
  uint32_t *links;   /* lists of pieces, ascending, which spans are parts of */
  size_t n_links, links_capacity;
} pieces;

static int refuse(const char *what) { return hiprt_fail(HIPRT_E_FOREIGN, "hipStreamEndCapture", what); }

/* Append a piece; it takes the kernel, and a copy of the payload. */
static int append(pieces *all, uint32_t kind, hipGraphNode_t source, hiprt_kernel *kernel, const void *payload,
                  uint32_t size) {
  if (all->match) {
    const int status = hiprt_captured_match_node(all->match, kind, kernel, payload, size);
    all->count++;
    hiprt_kernel_release(kernel);
    return status;
  }
  void *copy = malloc(size ? size : 1);
  if (copy && all->count == all->capacity) {
    size_t capacity = all->capacity ? all->capacity * 2 : 16;
    piece *grown = realloc(all->pieces, capacity * sizeof *grown);
    if (grown) {
      all->pieces = grown;
      all->capacity = capacity;
    }
  }
  if (!copy || all->count == all->capacity) {
    free(copy);
    hiprt_kernel_release(kernel);
    return hiprt_fail(HIPRT_E_MEMORY, "hiprt_flatten_end", 0);
  }
  if (size) memcpy(copy, payload, size);
  all->pieces[all->count++] = (piece){kind, source, kernel, copy, size, {0, 0}};
  return 0;
}

static int is_provisional(const pieces *all, uint64_t address) { return all->from <= address && address < all->to; }

/* HIP keeps the last failure of a thread for who asks, and other code asks after its launches. */
static int before_questions(void) { return hiprt_hip.hipPeekAtLastError ? (int)hiprt_hip.hipPeekAtLastError() : 0; }
static void after_questions(int before) {
  if (!before && hiprt_hip.hipGetLastError) hiprt_hip.hipGetLastError();
}

static int ask_argument(hipFunction_t function, int i, uint32_t *offset, uint32_t *size) {
  size_t at = 0, nbytes = 0;
  const int status = (int)hiprt_hip.hipKernelGetParamInfo((hipKernel_t)function, (size_t)i, &at, &nbytes);
  *offset = (uint32_t)at;
  *size = (uint32_t)nbytes;
  return status || nbytes ? status : hipErrorNotSupported;
}

/* Learn where the arguments of a kernel lie, and how many there are; -1: the library does not tell. An argument that
 * the kernel lacks is an invalid value; after any other failure the number of arguments is unknown. */
static int learn_arguments(hipFunction_t function, uint32_t *offsets, uint32_t *sizes) {
  int status = hiprt_hip.hipKernelGetParamInfo ? 0 : hipErrorNotSupported, count = 0;
  uint32_t offset, size;
  while (!status && !(status = ask_argument(function, count, &offset, &size))) {
    if (count == HIPRT_MAX_ARGS) return -1;
    offsets[count] = offset;
    sizes[count++] = size;
  }
  if (!count || status != hipErrorInvalidValue) return -1;
  /* A call that failed looks like the end, so it is the end only if an argument is told after it, and this one is not. */
  const int is_told = !ask_argument(function, 0, &offset, &size);
  return is_told && ask_argument(function, count, &offset, &size) == hipErrorInvalidValue ? count : -1;
}

/* Find the block of arguments in `extra`; NULL if there is none. */
static const void *packed_block(void **extra, size_t *out_size) {
  const void *block = 0;
  for (; extra && *extra && *extra != HIP_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == HIP_LAUNCH_PARAM_BUFFER_POINTER) block = extra[1];
    if (*extra == HIP_LAUNCH_PARAM_BUFFER_SIZE) *out_size = *(const size_t *)extra[1];
  }
  return *out_size ? block : 0;
}

static hiprt_dims dims_of(const hipKernelNodeParams *p, uint32_t attributes) {
  return (hiprt_dims){{p->gridDim.x, p->gridDim.y, p->gridDim.z},
                      {p->blockDim.x, p->blockDim.y, p->blockDim.z},
                      p->sharedMemBytes,
                      attributes};
}

static int append_opaque(pieces *all, hipGraphNode_t source, hipFunction_t function, const char *name,
                         const hipKernelNodeParams *p, uint32_t attributes) {
  static _Atomic uint64_t serials;
  if (all->from < all->to) return refuse("a kernel whose arguments HIP does not tell may have been given the address "
                                         "of an array that the step made and has no memory for yet");
  hiprt_opaque opaque = {dims_of(p, attributes), (uint64_t)(uintptr_t)function, (uint64_t)(uintptr_t)source, 0, ""};
  opaque.serial = atomic_fetch_add_explicit(&serials, 1, memory_order_relaxed) + 1;
  snprintf(opaque.name, sizeof opaque.name, "%s", name);
  return append(all, HIPRT_NODE_OPAQUE, source, 0, &opaque, sizeof opaque);
}

/* Return room for a payload, all zeros; NULL if there is no memory. */
static char *blank_payload(pieces *all, uint32_t size) {
  if (size > all->room) {
    char *grown = realloc(all->payload, size);
    if (!grown) return 0;
    all->payload = grown;
    all->room = size;
  }
  return memset(all->payload, 0, size);
}

/* Append a kernel, of which offsets and sizes of the arguments are known. */
static int append_known(pieces *all, hipGraphNode_t source, hiprt_kernel *kernel, const hipKernelNodeParams *p,
                        uint32_t attributes, const void *block) {
  char *payload = kernel ? blank_payload(all, kernel->payload_size) : 0;
  if (!payload) {
    hiprt_kernel_release(kernel);
    return hiprt_fail(HIPRT_E_MEMORY, "hiprt_flatten_end", 0);
  }
  const hiprt_dims dims = dims_of(p, attributes);
  char *args = payload + sizeof dims;
  memcpy(payload, &dims, sizeof dims);
  for (uint32_t i = 0; i < kernel->n_args; i++)
    memcpy(args + kernel->offsets[i], block ? block : p->kernelParams[i], kernel->args[i].size);
  int status = 0;
  for (uint32_t at = 0; !status && at < kernel->args_size; at += 8) {
    uint64_t word;
    memcpy(&word, args + at, sizeof word);
    if (is_provisional(all, word))
      status = refuse("a kernel was given the address of an array that the step made and has no memory for yet");
  }
  if (status)
    hiprt_kernel_release(kernel);
  else
    status = append(all, HIPRT_NODE_KERNEL, source, kernel, payload, kernel->payload_size);
  return status;
}

static hiprt_kernel *known_kernel(const pieces *all, const hipKernelNodeParams *p) {
  for (uint32_t i = 0; p->kernelParams && i < all->n_known; i++)
    if (all->known[i].func == p->func) return all->known[i].kernel;
  return 0;
}

static int append_kernel(pieces *all, hipGraphNode_t source) {
  hipKernelNodeParams p = {0};
  HIPRT_TRY(hipGraphKernelNodeGetParams, source, &p);
  int before = before_questions();
  uint32_t attributes;
  int status = hiprt_attributes_ask(source, &attributes);
  hiprt_kernel *kernel = status ? 0 : known_kernel(all, &p);
  if (status || kernel) {
    after_questions(before);
    if (status) return status;
    hiprt_kernel_retain(kernel);
    return append_known(all, source, kernel, &p, attributes, 0);
  }
  /* A kernel that a program launches as `kernel<<<…>>>` is known by a host symbol. */
  hipFunction_t function = 0;
  if (!hiprt_hip.hipGetFuncBySymbol || hiprt_hip.hipGetFuncBySymbol(&function, p.func)) function = (hipFunction_t)p.func;
  uint32_t offsets[HIPRT_MAX_ARGS] = {0}, sizes[HIPRT_MAX_ARGS];
  size_t packed = 0;
  const void *block = p.kernelParams ? 0 : packed_block(p.extra, &packed);
  int count = block ? 1 : p.kernelParams ? learn_arguments(function, offsets, sizes) : 0;
  if (block) sizes[0] = (uint32_t)packed;
  const char *name = hiprt_hip.hipKernelNameRef ? hiprt_hip.hipKernelNameRef(function) : 0;
  after_questions(before);
  if (!name) name = "kernel of other code";
  if (count < 0) return append_opaque(all, source, function, name, &p, attributes);
  kernel = hiprt_kernel_create_foreign(function, name, (uint32_t)count, offsets, sizes, packed);
  if (kernel && !block && all->n_known < MOST_KNOWN) {
    hiprt_kernel_retain(kernel);
    all->known[all->n_known].func = p.func;
    all->known[all->n_known++].kernel = kernel;
  }
  return append_known(all, source, kernel, &p, attributes, block);
}

/* Whether the library tells what a copy node copies: CLR's copies of one row keep that where GetParams does not look
 * (GraphMemcpyNode1D), and what it returns is junk. */
static int tells_of_copies(void) {
  static atomic_int known = -1;
  if (known >= 0) return known;
  if (!hiprt_hip.hipGraphMemcpyNodeGetParams) return known = 0;
  hipGraph_t graph = 0;
  hipGraphNode_t node;
  hipMemcpy3DParms p = {0};
  char *memory = 0;
  int mode = hiprt_capture_mode(hipStreamCaptureModeRelaxed);
  int is_asked =
      !hiprt_hip.hipMalloc((void **)&memory, 256) && !hiprt_hip.hipGraphCreate(&graph, 0) &&
      !hiprt_hip.hipGraphAddMemcpyNode1D(&node, graph, 0, 0, memory + 64, memory, 24, hipMemcpyDeviceToDevice) &&
      !hiprt_hip.hipGraphMemcpyNodeGetParams(node, &p);
  int is_right = is_asked && p.srcPtr.ptr == memory && p.dstPtr.ptr == memory + 64 && p.extent.width == 24;
  if (graph) hiprt_hip.hipGraphDestroy(graph);
  if (memory) hiprt_hip.hipFree(memory);
  hiprt_capture_mode(mode);
  /* A failure to ask is no answer: it is asked again. */
  if (is_asked) known = is_right;
  return is_right;
}

static int is_device_memory(const void *pointer) {
  hipPointerAttribute_t a = {0};
  if (!hiprt_hip.hipPointerGetAttributes) return 0;
  int before = before_questions(), status = (int)hiprt_hip.hipPointerGetAttributes(&a, pointer);
  after_questions(before);
  return !status && a.type == hipMemoryTypeDevice;
}

static int append_copy(pieces *all, hipGraphNode_t source) {
  hipMemcpy3DParms p = {0};
  if (!tells_of_copies())
    return refuse("the HIP library does not tell what a captured copy copies, as ROCm's does not: within the device, "
                  "Array.copy_from of hiprt makes a copy that can be recorded");
  HIPRT_TRY(hipGraphMemcpyNodeGetParams, source, &p);
  const char *from = (const char *)p.srcPtr.ptr + p.srcPos.x, *to = (const char *)p.dstPtr.ptr + p.dstPos.x;
  if (p.srcArray || p.dstArray || p.extent.height > 1 || p.extent.depth > 1 || p.srcPos.y || p.srcPos.z || p.dstPos.y ||
      p.dstPos.z)
    return refuse("a copy of more than one row");
  if (p.kind != hipMemcpyDeviceToDevice && !(p.kind == hipMemcpyDefault && is_device_memory(from) && is_device_memory(to)))
    return refuse("a copy from or to the host");
  hiprt_copy_args args = {(uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, p.extent.width};
  if (is_provisional(all, args.dst) || is_provisional(all, args.src))
    return refuse("a copy was given the address of an array that the step made and has no memory for yet");
  return args.nbytes ? append(all, HIPRT_NODE_COPY, source, 0, &args, sizeof args) : 0;
}

static int append_fill(pieces *all, hipGraphNode_t source) {
  hipMemsetParams p = {0};
  HIPRT_TRY(hipGraphMemsetNodeGetParams, source, &p);
  if (p.height > 1) return refuse("a fill of more than one row");
  hiprt_fill_args args = {(uint64_t)(uintptr_t)p.dst, p.width, p.value, p.elementSize};
  if (is_provisional(all, args.dst))
    return refuse("a fill was given the address of an array that the step made and has no memory for yet");
  return args.count ? append(all, HIPRT_NODE_FILL, source, 0, &args, sizeof args) : 0;
}

static int append_graph(pieces *all, hipGraph_t graph, span before, span *out_ends);

/* Append what a node does. before: the pieces that it waits for. *out_ends: those that nodes behind it wait for, where
 * they are not the piece that it became. */
static int append_node(pieces *all, hipGraphNode_t source, span before, span *out_ends) {
  hipGraphNodeType type;
  hipGraph_t child;
  HIPRT_TRY(hipGraphNodeGetType, source, &type);
  switch ((int)type) {
    case hipGraphNodeTypeKernel: return append_kernel(all, source);
    case hipGraphNodeTypeMemcpy: return append_copy(all, source);
    case hipGraphNodeTypeMemset: return append_fill(all, source);
    case hipGraphNodeTypeEmpty:
      return all->keeps_edges && before.count > 1 ? append(all, HIPRT_NODE_EMPTY, source, 0, 0, 0) : 0;
    case hipGraphNodeTypeGraph: {
      HIPRT_TRY(hipGraphChildGraphNodeGetGraph, source, &child);
      return append_graph(all, child, before, out_ends);
    }
    case hipGraphNodeTypeHost: return refuse("a function of the host (hipLaunchHostFunc)");
    case hipGraphNodeTypeWaitEvent:
    case hipGraphNodeTypeEventRecord: return refuse("an external event");
    case hipGraphNodeTypeMemAlloc:
    case hipGraphNodeTypeMemFree: return refuse("memory that is allocated or freed in stream order (hipMallocAsync)");
    case hipGraphNodeTypeMemcpyFromSymbol:
    case hipGraphNodeTypeMemcpyToSymbol: return refuse("a copy from or to a symbol");
    default: {
      char what[64];
      snprintf(what, sizeof what, "a graph node of type %d", (int)type);
      return refuse(what);
    }
  }
}

/* A node of a graph that is being flattened. */
typedef struct {
  hipGraphNode_t handle;
  uint32_t place;         /* in the graph's own order */
  uint32_t first, n_deps; /* the nodes that it waits for, in flattening.deps */
  int is_done, is_waited_for;
  span ends;
} member;

typedef struct {
  member *members;   /* in the graph's own order */
  member *by_handle; /* ascending, once one was looked for that does not lie near */
  int is_sorted;
  uint32_t *deps;
  size_t count;
} flattening;

static int by_handle(const void *a, const void *b) {
  const uintptr_t x = (uintptr_t)((const member *)a)->handle, y = (uintptr_t)((const member *)b)->handle;
  return (x > y) - (x < y);
}

static int ascending(const void *a, const void *b) {
  const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

/* Return where a node stands. It is looked for first at `near` and behind that: most nodes wait for the one before. */
static uint32_t place_of(flattening *f, hipGraphNode_t handle, uint32_t near) {
  for (uint32_t place = near; place < f->count && place < near + 2; place++)
    if (f->members[place].handle == handle) return place;
  if (!f->is_sorted) {
    for (size_t i = 0; i < f->count; i++) f->by_handle[i] = f->members[i];
    qsort(f->by_handle, f->count, sizeof *f->by_handle, by_handle);
    f->is_sorted = 1;
  }
  const member wanted = {.handle = handle}, *found = bsearch(&wanted, f->by_handle, f->count, sizeof wanted, by_handle);
  return found ? found->place : UINT32_MAX;
}

/* List for each node the nodes that it waits for. */
static int wire(flattening *f, const hiprt_wiring *graph) {
  for (size_t i = 0; i < f->count; i++) f->members[i] = (member){.handle = graph->nodes[i], .place = (uint32_t)i};
  uint32_t from = 0, to = 0;
  for (size_t k = 0; k < graph->n_edges; k++) {
    from = place_of(f, graph->from[k], from);
    to = place_of(f, graph->to[k], to);
    if (from == UINT32_MAX || to == UINT32_MAX) return refuse("a graph with an edge to no node of its own");
    f->members[from].is_waited_for = 1;
    f->members[to].n_deps++;
  }
  uint32_t at = 0;
  for (size_t i = 0; i < f->count; at += f->members[i++].n_deps) f->members[i].first = at;
  for (size_t i = 0; i < f->count; i++) f->members[i].n_deps = 0;
  from = to = 0;
  for (size_t k = 0; k < graph->n_edges; k++) {
    from = place_of(f, graph->from[k], from);
    to = place_of(f, graph->to[k], to);
    f->deps[f->members[to].first + f->members[to].n_deps++] = from;
  }
  return 0;
}

/* Append items to a list that begins where `out` says, which is the last. */
static int add_links(pieces *all, span *out, const uint32_t *items, size_t count, size_t start) {
  if (!count) return 0;
  if (all->n_links + count > all->links_capacity) {
    const size_t capacity = 2 * all->links_capacity + count + 64;
    uint32_t *grown = realloc(all->links, capacity * sizeof *grown);
    if (!grown) return hiprt_fail(HIPRT_E_MEMORY, "hiprt_flatten", 0);
    all->links = grown;
    all->links_capacity = capacity;
  }
  /* The items may lie in the block that was moved. */
  const uint32_t *from = items ? items : all->links + start;
  memcpy(all->links + all->n_links, from, count * sizeof *from);
  all->n_links += count;
  out->count += count;
  return 0;
}

/* Sort the last list, and keep each piece once. */
static void tidy(pieces *all, span *list) {
  uint32_t *links = all->links + list->start;
  size_t kept = 0;
  if (list->count > 1) qsort(links, list->count, sizeof *links, ascending);
  for (size_t i = 0; i < list->count; i++)
    if (!i || links[i] != links[kept - 1]) links[kept++] = links[i];
  list->count = kept;
  all->n_links = list->start + kept;
}

/* List the pieces that a node waits for: those that its graph waits for, if it is a root. */
static int gather(pieces *all, const flattening *f, const member *m, span before, span *out) {
  *out = m->n_deps ? (span){all->n_links, 0} : before;
  int status = 0;
  for (uint32_t k = 0; !status && k < m->n_deps; k++) {
    const span ends = f->members[f->deps[m->first + k]].ends;
    status = add_links(all, out, 0, ends.count, ends.start);
  }
  if (!status && m->n_deps) tidy(all, out);
  return status;
}

/* Keep what a new node waits for, or compare it. */
static int set_deps(pieces *all, uint32_t own, span deps) {
  if (all->match) return hiprt_captured_match_deps(all->match, own, deps.count ? all->links + deps.start : 0, deps.count);
  all->pieces[own].deps = deps;
  return 0;
}

static int flatten_member(pieces *all, const flattening *f, member *m, span before) {
  span deps = {0, 0};
  int status = all->keeps_edges ? gather(all, f, m, before, &deps) : 0;
  const size_t count = all->count;
  m->ends = deps;
  if (!status) status = append_node(all, m->handle, deps, &m->ends);
  hipGraphNodeType type;
  if (status || all->count != count + 1 || hiprt_hip.hipGraphNodeGetType(m->handle, &type) || type == hipGraphNodeTypeGraph)
    return status;
  const uint32_t own = (uint32_t)count;
  status = set_deps(all, own, deps);
  if (status) return status;
  m->ends = (span){all->n_links, 0};
  return all->keeps_edges ? add_links(all, &m->ends, &own, 1, 0) : 0;
}

/* Append the nodes of a graph, each behind those that it waits for, and else in the graph's own order. */
static int flatten_all(pieces *all, flattening *f, span before, span *out_ends) {
  for (size_t left = f->count; left;) {
    const size_t last = left;
    for (size_t i = 0; i < f->count; i++) {
      member *m = f->members + i;
      int waits = m->is_done;
      for (uint32_t k = 0; !waits && k < m->n_deps; k++) waits = !f->members[f->deps[m->first + k]].is_done;
      if (waits) continue;
      int status = flatten_member(all, f, m, before);
      if (status) return status;
      m->is_done = 1;
      left--;
    }
    if (left == last) return refuse("a graph with a cycle");
  }
  *out_ends = f->count ? (span){all->n_links, 0} : before;
  int status = 0;
  for (size_t i = 0; !status && all->keeps_edges && i < f->count; i++) {
    const span ends = f->members[i].ends;
    if (!f->members[i].is_waited_for) status = add_links(all, out_ends, 0, ends.count, ends.start);
  }
  if (!status && f->count) tidy(all, out_ends);
  return status;
}

static int append_graph(pieces *all, hipGraph_t graph, span before, span *out_ends) {
  hiprt_wiring wiring;
  *out_ends = before;
  int status = hiprt_capture_wiring(graph, &wiring);
  if (status) return status;
  flattening f = {.count = wiring.n_nodes};
  f.members = calloc(2 * f.count + 1, sizeof *f.members);
  f.deps = calloc(wiring.n_edges + 1, sizeof *f.deps);
  f.by_handle = f.members + f.count;
  if (!f.members || !f.deps)
    status = hiprt_fail(HIPRT_E_MEMORY, "hiprt_flatten", 0);
  else
    status = wire(&f, &wiring);
  if (!status) status = flatten_all(all, &f, before, out_ends);
  free(f.members);
  free(f.deps);
  free(wiring.nodes);
  return status;
}

/* Say what all of the work touches: what the program said, and what copies and fills tell themselves. */
static int claim(hiprt_captured *captured, const pieces *all, uint32_t n_ranges, const hiprt_range *ranges,
                 const uint8_t *access) {
  int status = 0;
  for (uint32_t i = 0; !status && i < n_ranges; i++) status = hiprt_captured_claim(captured, ranges[i], access[i]);
  for (size_t i = 0; !status && i < all->count; i++) {
    if (all->pieces[i].kind == HIPRT_NODE_COPY) {
      const hiprt_copy_args *c = all->pieces[i].payload;
      status = hiprt_captured_claim(captured, (hiprt_range){c->src, c->src + c->nbytes}, HIPRT_READ);
      if (!status) status = hiprt_captured_claim(captured, (hiprt_range){c->dst, c->dst + c->nbytes}, HIPRT_WRITE);
    } else if (all->pieces[i].kind == HIPRT_NODE_FILL) {
      const hiprt_fill_args *f = all->pieces[i].payload;
      status = hiprt_captured_claim(captured, (hiprt_range){f->dst, f->dst + f->count * f->width}, HIPRT_WRITE);
    }
  }
  return status;
}

/* Make nodes of all pieces. The captured graph is theirs from here on. */
static int add_pieces(hiprt_recorder *r, const pieces *all, hiprt_captured *captured) {
  for (size_t i = 0; i < all->count; i++) {
    const piece *p = all->pieces + i;
    const uint32_t *deps = all->keeps_edges ? all->links + p->deps.start : 0;
    int status = hiprt_recorder_add_captured(r, p->kind, p->kernel, p->payload, p->size, captured, p->source, deps,
                                             (uint32_t)p->deps.count);
    if (status) return status;
  }
  return 0;
}

static void drop_pieces(pieces *all) {
  for (size_t i = 0; all->pieces && i < all->count; i++) {
    hiprt_kernel_release(all->pieces[i].kernel);
    free(all->pieces[i].payload);
  }
  for (uint32_t i = 0; i < all->n_known; i++) hiprt_kernel_release(all->known[i].kernel);
  free(all->pieces);
  free(all->payload);
  free(all->links);
}

int hiprt_flatten_begin(hiprt_recorder *r, hiprt_stream *stream) {
  int status = hiprt_stream_is_open(stream, "hiprt_flatten_begin");
  if (status) return status;
  HIPRT_TRY(hipSetDevice, stream->device);
  hiprt_order_close(stream);
  status = hiprt_capture_begin(stream->handle);
  if (!status)
    hiprt_recorder_listen(r, (uint64_t)(uintptr_t)stream->handle);
  else
    hiprt_order_open(stream);
  return status;
}

static int end_capture(hiprt_stream *stream, hipGraph_t *out_graph) {
  const int status = hiprt_capture_end(stream->handle, out_graph);
  atomic_store_explicit(&stream->is_stuck, status && hiprt_is_capturing(stream->handle), memory_order_relaxed);
  hiprt_order_open(stream);
  return status;
}

int hiprt_flatten_end(hiprt_recorder *r, hiprt_stream *stream, uint32_t n_ranges, const hiprt_range *ranges,
                      const uint8_t *access, int is_barrier, uint64_t from, uint64_t to, uint32_t *out_nodes) {
  hipGraph_t graph = 0;
  *out_nodes = 0;
  hiprt_recorder_listen(r, 0);
  /* The capture ends whatever fails, so that the stream can be used. */
  int chosen = (int)hiprt_hip.hipSetDevice(stream->device), status = end_capture(stream, &graph);
  if (chosen) {
    if (graph) hiprt_hip.hipGraphDestroy(graph);
    return hiprt_fail(chosen, "hipSetDevice", 0);
  }
  if (status) return status;
  pieces all = {.from = from, .to = to};
  hiprt_captured *captured = hiprt_captured_create(graph, stream->device);
  if (!captured) {
    hiprt_hip.hipGraphDestroy(graph);
    return HIPRT_E_MEMORY;
  }
  captured->is_barrier = is_barrier;
  span ends;
  status = append_graph(&all, graph, (span){0, 0}, &ends);
  if (!status) status = claim(captured, &all, n_ranges, ranges, access);
  if (!status) status = add_pieces(r, &all, captured);
  *out_nodes = status ? 0 : (uint32_t)all.count;
  drop_pieces(&all);
  hiprt_captured_release(captured);
  return status;
}

int hiprt_flatten_graph(hiprt_recorder *r, uint64_t given, int device, int is_given) {
  hipGraph_t graph = (hipGraph_t)(uintptr_t)given;
  pieces all = {.keeps_edges = 1};
  span ends;
  int status = (int)hiprt_hip.hipSetDevice(device);
  if (!is_given) {
    if (status) return hiprt_fail(status, "hipSetDevice", 0);
    if (!hiprt_hip.hipGraphClone) return refuse("the HIP library cannot copy a graph");
    HIPRT_TRY(hipGraphClone, &graph, (hipGraph_t)(uintptr_t)given);
  }
  hiprt_captured *captured = hiprt_captured_create(graph, device);
  if (!captured) {
    hiprt_hip.hipGraphDestroy(graph);
    return HIPRT_E_MEMORY;
  }
  captured->is_barrier = 1;
  status = status ? hiprt_fail(status, "hipSetDevice", 0) : append_graph(&all, graph, (span){0, 0}, &ends);
  if (!status) status = add_pieces(r, &all, captured);
  drop_pieces(&all);
  hiprt_captured_release(captured);
  return status;
}

void hiprt_flatten_like(hiprt_recorder *like, uint64_t given, int device, int is_given, hiprt_recorder **out_recorder) {
  hipGraph_t graph = (hipGraph_t)(uintptr_t)given;
  hiprt_captured_match match = {.like = like};
  pieces all = {.keeps_edges = 1, .match = &match};
  span ends;
  *out_recorder = 0;
  if (hiprt_recorder_captured_on(like) != device || hiprt_hip.hipSetDevice(device)) return;
  const int status = append_graph(&all, graph, (span){0, 0}, &ends);
  hiprt_captured_match_end(&match, status, out_recorder);
  if (*out_recorder && is_given) hiprt_hip.hipGraphDestroy(graph);
  drop_pieces(&all);
}

void hiprt_flatten_drop(hiprt_recorder *r, hiprt_stream *stream) {
  hipGraph_t graph = 0;
  hiprt_recorder_listen(r, 0);
  hiprt_hip.hipSetDevice(stream->device);
  if (!end_capture(stream, &graph)) hiprt_hip.hipGraphDestroy(graph);
}
