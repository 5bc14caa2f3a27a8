#include "attributes.h"

#include "status.h"

#define LEAST_PRIORITY -128
#define MOST_ATTRIBUTES 4 /* of one launch */

static int refuse(const char *what) { return hiprt_fail(HIPRT_E_FOREIGN, "hiprt_attributes", what); }

/* Add bits of an attribute to those before; whether it has no more of them. */
static int put(uint32_t *attributes, int value, int least, uint32_t bits) {
  const uint32_t place = (uint32_t)value - (uint32_t)least;
  *attributes = *attributes << bits | (place & ((1u << bits) - 1));
  return !(place >> bits);
}

/* Take the bits of the attribute that was put last. */
static int take(uint32_t *attributes, int least, uint32_t bits) {
  const int value = (int)(*attributes & ((1u << bits) - 1)) + least;
  *attributes >>= bits;
  return value;
}

int hiprt_attributes_ask(hipGraphNode_t source, uint32_t *out) {
  hipLaunchAttributeValue cooperative = {0}, cluster = {0}, policy = {0}, priority = {0}, domain = {0};
  *out = 0;
  if (!hiprt_hip.hipGraphKernelNodeGetAttribute) return 0;
  const struct {
    hipLaunchAttributeID id;
    hipLaunchAttributeValue *value;
  } asked[] = {{hipLaunchAttributeCooperative, &cooperative},
               {hipLaunchAttributeClusterDimension, &cluster},
               {hipLaunchAttributeClusterSchedulingPolicyPreference, &policy},
               {hipLaunchAttributePriority, &priority},
               {hipLaunchAttributeMemSyncDomain, &domain}};
  for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
    if (hiprt_hip.hipGraphKernelNodeGetAttribute(source, asked[i].id, asked[i].value))
      *asked[i].value = (hipLaunchAttributeValue){0};
  if (cooperative.cooperative) return refuse("a cooperative launch cannot be repeated eagerly");
  const int fits = put(out, (int)cluster.clusterDim.x, 0, 5) & put(out, (int)cluster.clusterDim.y, 0, 5) &
                   put(out, (int)cluster.clusterDim.z, 0, 5) &
                   put(out, (int)policy.clusterSchedulingPolicyPreference, 0, 2) &
                   put(out, priority.priority, LEAST_PRIORITY, 8) & put(out, (int)domain.memSyncDomain, 0, 1);
  *out ^= -LEAST_PRIORITY << 1;
  return fits ? 0 : refuse("a kernel with a launch attribute of an unknown value");
}

/* List attributes for a launch; returns how many there are. */
static uint32_t list_attributes(uint32_t attributes, hipLaunchAttribute *out) {
  hipLaunchAttributeValue cluster = {0}, policy = {0}, priority = {0}, domain = {0};
  attributes ^= -LEAST_PRIORITY << 1;
  domain.memSyncDomain = (hipLaunchMemSyncDomain)take(&attributes, 0, 1);
  priority.priority = take(&attributes, LEAST_PRIORITY, 8);
  policy.clusterSchedulingPolicyPreference = (hipClusterSchedulingPolicy)take(&attributes, 0, 2);
  cluster.clusterDim.z = (unsigned)take(&attributes, 0, 5);
  cluster.clusterDim.y = (unsigned)take(&attributes, 0, 5);
  cluster.clusterDim.x = (unsigned)take(&attributes, 0, 5);
  uint32_t count = 0;
  /* A policy is that of clusters, of which a kernel without the attribute has none. */
  if (cluster.clusterDim.x) {
    out[count++] = (hipLaunchAttribute){.id = hipLaunchAttributeClusterDimension, .value = cluster};
    if (policy.clusterSchedulingPolicyPreference)
      out[count++] = (hipLaunchAttribute){.id = hipLaunchAttributeClusterSchedulingPolicyPreference, .value = policy};
  }
  if (priority.priority) out[count++] = (hipLaunchAttribute){.id = hipLaunchAttributePriority, .value = priority};
  if (domain.memSyncDomain) out[count++] = (hipLaunchAttribute){.id = hipLaunchAttributeMemSyncDomain, .value = domain};
  return count;
}

int hiprt_attributes_launch(const hipKernelNodeParams *p, uint32_t attributes, hipStream_t stream) {
  if (!hiprt_hip.hipDrvLaunchKernelEx) return refuse("the HIP library has no launch with attributes (hipDrvLaunchKernelEx)");
  hipLaunchAttribute list[MOST_ATTRIBUTES];
  const HIP_LAUNCH_CONFIG config = {
      .gridDimX = p->gridDim.x, .gridDimY = p->gridDim.y, .gridDimZ = p->gridDim.z,
      .blockDimX = p->blockDim.x, .blockDimY = p->blockDim.y, .blockDimZ = p->blockDim.z,
      .sharedMemBytes = p->sharedMemBytes, .hStream = stream,
      .attrs = list, .numAttrs = list_attributes(attributes, list)};
  HIPRT_TRY(hipDrvLaunchKernelEx, &config, (hipFunction_t)p->func, p->kernelParams, p->extra);
  return 0;
}
