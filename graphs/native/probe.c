#include "probe.h"

#include "library.h"
#include "status.h"

/* Add three empty nodes, the last of which waits for the one that `parent` names. */
static int add_three(hipGraph_t graph, int parent) {
  hipGraphNode_t nodes[3];
  HIPRT_TRY(hipGraphAddEmptyNode, nodes, graph, 0, 0);
  HIPRT_TRY(hipGraphAddEmptyNode, nodes + 1, graph, nodes, 1);
  HIPRT_TRY(hipGraphAddEmptyNode, nodes + 2, graph, nodes + parent, 1);
  return 0;
}

static int update(hipGraph_t from, hipGraph_t to, int *out_refused) {
  hipGraphExec_t exec;
  hipGraphNode_t error_node = 0;
  hipGraphExecUpdateResult result = hipGraphExecUpdateSuccess;
  int status = add_three(from, 0);
  if (!status) status = add_three(to, 1);
  if (status) return status;
  HIPRT_TRY(hipGraphInstantiate, &exec, from, 0, 0, 0);
  *out_refused = hiprt_hip.hipGraphExecUpdate(exec, to, &error_node, &result) != hipSuccess;
  HIPRT_TRY(hipGraphExecDestroy, exec);
  return 0;
}

int hiprt_probe_wiring(int device, int *out_refused) {
  hipGraph_t from, to;
  HIPRT_TRY(hipSetDevice, device);
  HIPRT_TRY(hipGraphCreate, &from, 0);
  int status = (int)hiprt_hip.hipGraphCreate(&to, 0);
  if (status) {
    hiprt_fail(status, "hipGraphCreate", 0);
  } else {
    status = update(from, to, out_refused);
    hiprt_hip.hipGraphDestroy(to);
  }
  hiprt_hip.hipGraphDestroy(from);
  return status;
}
