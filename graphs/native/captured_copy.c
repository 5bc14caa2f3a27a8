#include "captured_copy.h"

#include "capture.h"
#include "last_error.h"

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
  int before = hiprt_last_error(), status = (int)hiprt_hip.hipPointerGetAttributes(&a, pointer);
  hiprt_last_error_restore(before);
  return !status && a.type == hipMemoryTypeDevice;
}

int hiprt_captured_copy(hiprt_pieces *all, hipGraphNode_t source) {
  hipMemcpy3DParms p = {0};
  if (!tells_of_copies())
    return hiprt_pieces_refuse("the HIP library does not tell what a captured copy copies, as ROCm's does not: within the "
                               "device, Array.copy_from of hiprt makes a copy that can be recorded");
  HIPRT_TRY(hipGraphMemcpyNodeGetParams, source, &p);
  const char *from = (const char *)p.srcPtr.ptr + p.srcPos.x, *to = (const char *)p.dstPtr.ptr + p.dstPos.x;
  if (p.srcArray || p.dstArray || p.extent.height > 1 || p.extent.depth > 1 || p.srcPos.y || p.srcPos.z || p.dstPos.y ||
      p.dstPos.z)
    return hiprt_pieces_refuse("a copy of more than one row");
  if (p.kind != hipMemcpyDeviceToDevice && !(p.kind == hipMemcpyDefault && is_device_memory(from) && is_device_memory(to)))
    return hiprt_pieces_refuse("a copy from or to the host");
  hiprt_copy_args args = {(uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, p.extent.width};
  if (hiprt_pieces_is_provisional(all, args.dst) || hiprt_pieces_is_provisional(all, args.src))
    return hiprt_pieces_refuse("a copy was given the address of an array that the step made and has no memory for yet");
  return args.nbytes ? hiprt_pieces_append(all, HIPRT_NODE_COPY, source, 0, &args, sizeof args) : 0;
}

int hiprt_captured_fill(hiprt_pieces *all, hipGraphNode_t source) {
  hipMemsetParams p = {0};
  HIPRT_TRY(hipGraphMemsetNodeGetParams, source, &p);
  if (p.height > 1) return hiprt_pieces_refuse("a fill of more than one row");
  hiprt_fill_args args = {(uint64_t)(uintptr_t)p.dst, p.width, p.value, p.elementSize};
  if (hiprt_pieces_is_provisional(all, args.dst))
    return hiprt_pieces_refuse("a fill was given the address of an array that the step made and has no memory for yet");
  return args.count ? hiprt_pieces_append(all, HIPRT_NODE_FILL, source, 0, &args, sizeof args) : 0;
}
