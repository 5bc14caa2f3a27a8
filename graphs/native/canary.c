#include "canary.h"

#include <stdio.h>

#include "capture.h"
#include "status.h"

int hiprt_canary_open(hiprt_canary *c, hiprt_kernel *kernel) {
  void *word = 0;
  if (!kernel) return 0;
  const int mode = hiprt_capture_mode(hipStreamCaptureModeRelaxed);
  const int status = (int)hiprt_hip.hipHostMalloc(&word, sizeof *c->word, 0);
  hiprt_capture_mode(mode);
  if (status) return hiprt_fail(status, "hipHostMalloc", 0);
  hiprt_kernel_retain(kernel);
  *c = (hiprt_canary){kernel, 0, word, 1, 0};
  *c->word = 0;
  return 0;
}

void hiprt_canary_close(hiprt_canary *c) {
  if (!c->kernel) return;
  const int mode = hiprt_capture_mode(hipStreamCaptureModeRelaxed);
  hiprt_hip.hipHostFree(c->word);
  hiprt_capture_mode(mode);
  hiprt_kernel_release(c->kernel);
}

static hipKernelNodeParams params(const hiprt_canary *c, void **cells) {
  cells[0] = (void *)&c->word;
  cells[1] = (void *)&c->epoch;
  hipKernelNodeParams p = {0};
  p.func = c->kernel->function;
  p.gridDim.x = p.gridDim.y = p.gridDim.z = p.blockDim.x = p.blockDim.y = p.blockDim.z = 1;
  p.kernelParams = cells;
  return p;
}

int hiprt_canary_add(hiprt_canary *c, hipGraph_t graph, hipGraphNode_t behind) {
  void *cells[2];
  if (!c->kernel) return 0;
  hipKernelNodeParams p = params(c, cells);
  HIPRT_TRY(hipGraphAddKernelNode, &c->node, graph, &behind, 1, &p);
  return 0;
}

static void count(hiprt_canary *c) {
  c->epoch++;
  c->is_due = 0;
}

int hiprt_canary_set(hiprt_canary *c) {
  void *cells[2];
  if (!c->kernel) return 0;
  count(c);
  hipKernelNodeParams p = params(c, cells);
  HIPRT_TRY(hipGraphKernelNodeSetParams, c->node, &p);
  return 0;
}

int hiprt_canary_patch(hiprt_canary *c, hipGraphExec_t exec) {
  void *cells[2];
  if (!c->kernel) return 0;
  count(c);
  hipKernelNodeParams p = params(c, cells);
  HIPRT_TRY(hipGraphExecKernelNodeSetParams, exec, c->node, &p);
  return 0;
}

int hiprt_canary_check(const hiprt_canary *c) {
  if (!c->kernel || !c->is_due || *(volatile uint32_t *)c->word == c->epoch) return 0;
  char detail[128];
  snprintf(detail, sizeof detail, "change %u reported success, and the launch behind it carried change %u", c->epoch, *c->word);
  return hiprt_fail(HIPRT_E_STALE, "canary", detail);
}
