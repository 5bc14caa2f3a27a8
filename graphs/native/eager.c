#include "eager.h"

#include <string.h>

#include "attributes.h"
#include "captured.h"
#include "status.h"
#include "stream.h"
#include "touches.h"

/* Launch a kernel of other code as it was captured. */
static int run_captured(const hipKernelNodeParams *p, uint32_t attributes, hiprt_stream *stream) {
  HIPRT_TRY(hipSetDevice, stream->device);
  if (attributes) {
    const int status = hiprt_attributes_launch(p, attributes, stream->handle);
    if (status) return status;
  } else {
    HIPRT_TRY(hipModuleLaunchKernel, (hipFunction_t)p->func, p->gridDim.x, p->gridDim.y, p->gridDim.z, p->blockDim.x,
              p->blockDim.y, p->blockDim.z, p->sharedMemBytes, stream->handle, p->kernelParams, p->extra);
  }
  stream->launches++;
  return 0;
}

static int run_opaque(const hiprt_opaque *opaque, hiprt_stream *stream) {
  hipKernelNodeParams p;
  HIPRT_TRY(hipSetDevice, stream->device);
  const int status = hiprt_captured_params(opaque, &p);
  return status ? status : run_captured(&p, opaque->dims.zero, stream);
}

static int run_kernel(const hiprt_kernel *kernel, const char *payload, hiprt_stream *stream) {
  hiprt_dims dims;
  memcpy(&dims, payload, sizeof dims);
  if (!dims.zero) return hiprt_launch_payload(stream, kernel, payload);
  void *cells[HIPRT_MAX_ARGS];
  const hipKernelNodeParams p = hiprt_kernel_params(kernel, payload, cells);
  return run_captured(&p, dims.zero, stream);
}

static int run_node(const hiprt_node *n, hiprt_stream *stream) {
  const char *payload = n->payload;
  if (n->kind == HIPRT_NODE_KERNEL) return run_kernel(n->kernel, payload, stream);
  if (n->kind == HIPRT_NODE_COPY) {
    const hiprt_copy_args *c = (const hiprt_copy_args *)payload;
    return hiprt_copy(stream, c->dst, c->src, c->nbytes, hipMemcpyDeviceToDevice);
  }
  if (n->kind == HIPRT_NODE_FILL) {
    const hiprt_fill_args *f = (const hiprt_fill_args *)payload;
    return hiprt_fill(stream, f->dst, f->value, f->width, f->count);
  }
  return n->kind == HIPRT_NODE_OPAQUE ? run_opaque((const hiprt_opaque *)payload, stream) : 0;
}

static int run_nodes(const hiprt_recorder *r, hiprt_stream *stream, int *out_ran) {
  hiprt_node n;
  for (uint32_t i = 0; i < hiprt_recorder_size(r); i++) {
    hiprt_recorder_work(r, i, &n);
    int status = run_node(&n, stream);
    *out_ran |= !hiprt_is_refused(status);
    if (status) return status;
  }
  return 0;
}

int hiprt_recorder_run(const hiprt_recorder *r, hiprt_stream *stream, int *out_ran) {
  *out_ran = 0;
  if (hiprt_stream_records(stream))
    return hiprt_fail(HIPRT_E_RECORDING, "hiprt_recorder_run", "the stream is recording");
  uint32_t count;
  const hiprt_touch *touches = hiprt_recorder_touches(r, &count);
  int status = hiprt_stream_is_open(stream, "hiprt_recorder_run");
  if (status) return status;
  status = hiprt_order_begin(stream, touches, count);
  if (status) return status;
  status = run_nodes(r, stream, out_ran);
  hiprt_order_end(stream, touches, count);
  return status;
}
