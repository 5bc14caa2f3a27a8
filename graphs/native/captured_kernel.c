#include "captured_kernel.h"

#include <stdio.h>
#include <string.h>

#include "attributes.h"
#include "captured.h"
#include "last_error.h"

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

static int append_opaque(hiprt_pieces *all, hipGraphNode_t source, hipFunction_t function, const char *name,
                         const hipKernelNodeParams *p, uint32_t attributes) {
  static _Atomic uint64_t serials;
  if (all->from < all->to)
    return hiprt_pieces_refuse("a kernel whose arguments HIP does not tell may have been given the address of an array that the "
                               "step made and has no memory for yet");
  hiprt_opaque opaque = {dims_of(p, attributes), (uint64_t)(uintptr_t)function, (uint64_t)(uintptr_t)source, 0, ""};
  opaque.serial = atomic_fetch_add_explicit(&serials, 1, memory_order_relaxed) + 1;
  snprintf(opaque.name, sizeof opaque.name, "%s", name);
  return hiprt_pieces_append(all, HIPRT_NODE_OPAQUE, source, 0, &opaque, sizeof opaque);
}

/* Append a kernel, of which offsets and sizes of the arguments are known. */
static int append_known(hiprt_pieces *all, hipGraphNode_t source, hiprt_kernel *kernel, const hipKernelNodeParams *p,
                        uint32_t attributes, const void *block) {
  char *payload = kernel ? hiprt_pieces_blank(all, kernel->payload_size) : 0;
  if (!payload) {
    hiprt_kernel_release(kernel);
    return hiprt_fail(HIPRT_E_MEMORY, "hiprt_flatten", 0);
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
    if (hiprt_pieces_is_provisional(all, word))
      status = hiprt_pieces_refuse("a kernel was given the address of an array that the step made and has no memory for yet");
  }
  if (status)
    hiprt_kernel_release(kernel);
  else
    status = hiprt_pieces_append(all, HIPRT_NODE_KERNEL, source, kernel, payload, kernel->payload_size);
  return status;
}

static hiprt_kernel *known_kernel(const hiprt_pieces *all, const hipKernelNodeParams *p) {
  for (uint32_t i = 0; p->kernelParams && i < all->n_known; i++)
    if (all->known[i].func == p->func) return all->known[i].kernel;
  return 0;
}

int hiprt_captured_kernel(hiprt_pieces *all, hipGraphNode_t source) {
  hipKernelNodeParams p = {0};
  HIPRT_TRY(hipGraphKernelNodeGetParams, source, &p);
  int before = hiprt_last_error();
  uint32_t attributes;
  int status = hiprt_attributes_ask(source, &attributes);
  hiprt_kernel *kernel = status ? 0 : known_kernel(all, &p);
  if (status || kernel) {
    hiprt_last_error_restore(before);
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
  hiprt_last_error_restore(before);
  if (!name) name = "kernel of other code";
  if (count < 0) return append_opaque(all, source, function, name, &p, attributes);
  kernel = hiprt_kernel_create_foreign(function, name, (uint32_t)count, offsets, sizes, packed);
  if (kernel && !block && all->n_known < HIPRT_MOST_KNOWN) {
    hiprt_kernel_retain(kernel);
    all->known[all->n_known].func = p.func;
    all->known[all->n_known++].kernel = kernel;
  }
  return append_known(all, source, kernel, &p, attributes, block);
}
