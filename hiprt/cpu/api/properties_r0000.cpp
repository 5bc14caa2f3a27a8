// hipGetDeviceProperties and hipChooseDevice as symbols. Programs that look them up by name, and those built before HIP
// 6, mean the properties of HIP 5: ROCm's library keeps them for both (hip_table_interface_c.cpp of ROCm/clr
// @f9f995c6d). The headers give the names to the newer functions.
#include <cstring>

#include "hip/hip_runtime_api.h"
#include "runtime/status.h"

#undef hipGetDeviceProperties
#undef hipChooseDevice

namespace cpu {
namespace {

struct PropertiesR0000 {
  char name[256];
  size_t totalGlobalMem, sharedMemPerBlock;
  int regsPerBlock, warpSize, maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];
  int clockRate, memoryClockRate, memoryBusWidth;
  size_t totalConstMem;
  int major, minor, multiProcessorCount, l2CacheSize, maxThreadsPerMultiProcessor, computeMode, clockInstructionRate;
  hipDeviceArch_t arch;
  int concurrentKernels, pciDomainID, pciBusID, pciDeviceID;
  size_t maxSharedMemoryPerMultiProcessor;
  int isMultiGpuBoard, canMapHostMemory, gcnArch;
  char gcnArchName[256];
  int integrated, cooperativeLaunch, cooperativeMultiDeviceLaunch;
  int maxTexture1DLinear, maxTexture1D, maxTexture2D[2], maxTexture3D[3];
  unsigned *hdpMemFlushCntl, *hdpRegFlushCntl;
  size_t memPitch, textureAlignment, texturePitchAlignment;
  int kernelExecTimeoutEnabled, ECCEnabled, tccDriver;
  int cooperativeMultiDeviceUnmatchedFunc, cooperativeMultiDeviceUnmatchedGridDim;
  int cooperativeMultiDeviceUnmatchedBlockDim, cooperativeMultiDeviceUnmatchedSharedMem;
  int isLargeBar, asicRevision, managedMemory, directManagedMemAccessFromHost, concurrentManagedAccess;
  int pageableMemoryAccess, pageableMemoryAccessUsesHostPageTables;
};
static_assert(offsetof(PropertiesR0000, gcnArchName) == 396 && sizeof(PropertiesR0000) == 792);

template <class T>
void copy(T &to, const T &from) {
  std::memcpy(&to, &from, sizeof(T));
}

PropertiesR0000 older(const hipDeviceProp_t &p) {
  PropertiesR0000 out{};
#define HIPRT_SAME(member) copy(out.member, p.member)
  HIPRT_SAME(name), HIPRT_SAME(totalGlobalMem), HIPRT_SAME(sharedMemPerBlock), HIPRT_SAME(regsPerBlock);
  HIPRT_SAME(warpSize), HIPRT_SAME(maxThreadsPerBlock), HIPRT_SAME(maxThreadsDim), HIPRT_SAME(maxGridSize);
  HIPRT_SAME(clockRate), HIPRT_SAME(memoryClockRate), HIPRT_SAME(memoryBusWidth), HIPRT_SAME(totalConstMem);
  HIPRT_SAME(major), HIPRT_SAME(minor), HIPRT_SAME(multiProcessorCount), HIPRT_SAME(l2CacheSize);
  HIPRT_SAME(maxThreadsPerMultiProcessor), HIPRT_SAME(computeMode), HIPRT_SAME(clockInstructionRate), HIPRT_SAME(arch);
  HIPRT_SAME(concurrentKernels), HIPRT_SAME(pciDomainID), HIPRT_SAME(pciBusID), HIPRT_SAME(pciDeviceID);
  HIPRT_SAME(maxSharedMemoryPerMultiProcessor), HIPRT_SAME(isMultiGpuBoard), HIPRT_SAME(canMapHostMemory);
  HIPRT_SAME(gcnArchName), HIPRT_SAME(integrated), HIPRT_SAME(cooperativeLaunch);
  HIPRT_SAME(cooperativeMultiDeviceLaunch), HIPRT_SAME(maxTexture1DLinear), HIPRT_SAME(maxTexture1D);
  HIPRT_SAME(maxTexture2D), HIPRT_SAME(maxTexture3D), HIPRT_SAME(hdpMemFlushCntl), HIPRT_SAME(hdpRegFlushCntl);
  HIPRT_SAME(memPitch), HIPRT_SAME(textureAlignment), HIPRT_SAME(texturePitchAlignment);
  HIPRT_SAME(kernelExecTimeoutEnabled), HIPRT_SAME(ECCEnabled), HIPRT_SAME(tccDriver), HIPRT_SAME(isLargeBar);
  HIPRT_SAME(asicRevision), HIPRT_SAME(managedMemory), HIPRT_SAME(directManagedMemAccessFromHost);
  HIPRT_SAME(concurrentManagedAccess), HIPRT_SAME(pageableMemoryAccess);
  HIPRT_SAME(pageableMemoryAccessUsesHostPageTables);
#undef HIPRT_SAME
  return out;
}

}  // namespace
}  // namespace cpu

#pragma GCC visibility push(default)
extern "C" {

hipError_t hipGetDevicePropertiesR0000(void *out, int device) {
  if (!out) return cpu::done(hipErrorInvalidValue);
  hipDeviceProp_t newer;
  if (const hipError_t error = hipGetDevicePropertiesR0600(&newer, device)) return error;
  cpu::copy(*static_cast<cpu::PropertiesR0000 *>(out), cpu::older(newer));
  return hipSuccess;
}

hipError_t hipGetDeviceProperties(void *out, int device) { return hipGetDevicePropertiesR0000(out, device); }

// All devices are the same host, so that nothing of what is wanted is read.
hipError_t hipChooseDeviceR0000(int *device, const void *wanted) {
  const hipDeviceProp_t any{};
  return hipChooseDeviceR0600(device, wanted ? &any : nullptr);
}

hipError_t hipChooseDevice(int *device, const void *wanted) { return hipChooseDeviceR0000(device, wanted); }

}  // extern "C"
#pragma GCC visibility pop
