#include "runtime/properties.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "flags.h"
#include "quirks/quirks.h"
#include "runtime/array.h"
#include "runtime/device.h"

namespace cpu {
namespace {

constexpr int kMemoryPitch = INT_MAX;
constexpr int kCacheBytes = 1 << 20;

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) return line.substr(colon + 2);
  }
#if defined(__aarch64__)
  return "aarch64";
#else
  return "unknown processor";
#endif
}

// Returns the clock rate that the operating system reports, in kHz, or 1 GHz if it reports none.
int clock_khz() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("cpu MHz", 0) == 0 && colon != std::string::npos) {
      return static_cast<int>(std::strtod(line.c_str() + colon + 2, nullptr) * 1000);
    }
  }
  return 1000000;
}

int last_level_cache() {
  for (int name : {_SC_LEVEL3_CACHE_SIZE, _SC_LEVEL2_CACHE_SIZE}) {
    const long bytes = sysconf(name);
    if (bytes > 0) return static_cast<int>(std::min<long>(bytes, INT_MAX));
  }
  return kCacheBytes;
}

template <size_t N>
void put_text(char (&out)[N], const std::string &text) {
  std::snprintf(out, N, "%s", text.c_str());
}

void put_limits(hipDeviceProp_t &p) {
  p.totalGlobalMem = flags().memory_bytes;
  p.sharedMemPerBlock = p.sharedMemPerBlockOptin = kSharedMemory;
  p.sharedMemPerMultiprocessor = p.maxSharedMemoryPerMultiProcessor = kSharedMemory;
  p.totalConstMem = INT_MAX;
  p.regsPerBlock = p.regsPerMultiprocessor = 65536;
  p.warpSize = kWarpSize;
  p.memPitch = kMemoryPitch;
  p.maxThreadsPerBlock = kMaxThreadsPerBlock;
  std::fill_n(p.maxThreadsDim, 3, static_cast<int>(kMaxThreadsPerBlock));
  p.maxGridSize[0] = kMaxGridX;
  p.maxGridSize[1] = p.maxGridSize[2] = kMaxGridYZ;
  p.maxThreadsPerMultiProcessor = kMaxThreadsPerMultiprocessor;
  p.maxBlocksPerMultiProcessor = kMaxBlocksPerMultiprocessor;
  p.multiProcessorCount = static_cast<int>(flags().threads);
}

// HIP tells the extents of arrays as those of the textures and surfaces made of them. There are arrays here, though nothing is
// made of them.
void put_array_limits(hipDeviceProp_t &p) {
  p.maxTexture1D = p.maxSurface1D = kMostAcross;
  for (int(*two)[2] : {&p.maxTexture2D, &p.maxSurface2D}) std::fill_n(*two, 2, kMostAcross);
  for (int(*three)[3] : {&p.maxTexture3D, &p.maxSurface3D, &p.maxTexture2DLayered, &p.maxSurface2DLayered}) {
    std::fill_n(*three, 2, kMostAcross);
    (*three)[2] = kMostPlanes;
  }
  for (int(*layers)[2] : {&p.maxTexture1DLayered, &p.maxSurface1DLayered}) {
    (*layers)[0] = kMostAcross;
    (*layers)[1] = kMostPlanes;
  }
}

void put_abilities(hipDeviceProp_t &p) {
  p.integrated = p.canMapHostMemory = p.unifiedAddressing = p.managedMemory = p.concurrentManagedAccess = 1;
  p.pageableMemoryAccess = p.pageableMemoryAccessUsesHostPageTables = p.directManagedMemAccessFromHost = 1;
  p.hostNativeAtomicSupported = p.canUseHostPointerForRegisteredMem = p.hostRegisterSupported = 1;
  p.streamPrioritiesSupported = p.isLargeBar = p.cooperativeLaunch = 1;
  // HIP_MEM_POOL_SUPPORT is false up to 6.1, and the calls work nevertheless (hip_device_runtime.cpp:437).
  p.memoryPoolsSupported = quirk(Quirk::PoolsUnsupportedAttr) ? 0 : 1;
  p.memoryPoolSupportedHandleTypes = hipMemHandleTypePosixFileDescriptor;
  p.globalL1CacheSupported = p.localL1CacheSupported = 1;
  p.singleToDoublePrecisionPerfRatio = 2;
  p.textureAlignment = p.texturePitchAlignment = p.surfaceAlignment = 256;
  hipDeviceArch_t &a = p.arch;
  a.hasGlobalInt32Atomics = a.hasGlobalFloatAtomicExch = a.hasSharedInt32Atomics = 1;
  a.hasSharedFloatAtomicExch = a.hasFloatAtomicAdd = a.hasGlobalInt64Atomics = a.hasSharedInt64Atomics = 1;
  a.hasDoubles = a.hasWarpVote = a.hasWarpBallot = a.hasWarpShuffle = a.hasThreadFenceSystem = a.has3dGrid = 1;
}

hipDeviceProp_t describe(int device) {
  hipDeviceProp_t p;
  std::memset(&p, 0, sizeof(p));
  put_text(p.name, cpu_model());
  put_text(p.gcnArchName, "hiprt-cpu");
  std::memcpy(p.uuid.bytes, "hiprt-cpu-device", sizeof(p.uuid.bytes));
  p.uuid.bytes[15] = static_cast<char>('0' + device);  // letters and digits, because some programs read it as a text
  p.major = 1;
  p.pciBusID = device;
  p.memoryClockRate = clock_khz();
  // Both of a kernel's clocks tick once a nanosecond. In kHz.
  p.clockRate = p.clockInstructionRate = 1000000;
  p.memoryBusWidth = 64;
  p.l2CacheSize = last_level_cache();
  put_limits(p);
  put_array_limits(p);
  put_abilities(p);
  return p;
}

// Attributes that the properties hold under a name.
struct IntAttribute {
  hipDeviceAttribute_t which;
  int hipDeviceProp_t::*member;
};

struct SizeAttribute {
  hipDeviceAttribute_t which;
  size_t hipDeviceProp_t::*member;
};

constexpr IntAttribute kInts[] = {
    {hipDeviceAttributeEccEnabled, &hipDeviceProp_t::ECCEnabled},
    {hipDeviceAttributeAccessPolicyMaxWindowSize, &hipDeviceProp_t::accessPolicyMaxWindowSize},
    {hipDeviceAttributeAsyncEngineCount, &hipDeviceProp_t::asyncEngineCount},
    {hipDeviceAttributeCanMapHostMemory, &hipDeviceProp_t::canMapHostMemory},
    {hipDeviceAttributeCanUseHostPointerForRegisteredMem, &hipDeviceProp_t::canUseHostPointerForRegisteredMem},
    {hipDeviceAttributeClockRate, &hipDeviceProp_t::clockRate},
    {hipDeviceAttributeComputeMode, &hipDeviceProp_t::computeMode},
    {hipDeviceAttributeComputePreemptionSupported, &hipDeviceProp_t::computePreemptionSupported},
    {hipDeviceAttributeConcurrentKernels, &hipDeviceProp_t::concurrentKernels},
    {hipDeviceAttributeConcurrentManagedAccess, &hipDeviceProp_t::concurrentManagedAccess},
    {hipDeviceAttributeCooperativeLaunch, &hipDeviceProp_t::cooperativeLaunch},
    {hipDeviceAttributeCooperativeMultiDeviceLaunch, &hipDeviceProp_t::cooperativeMultiDeviceLaunch},
    {hipDeviceAttributeDeviceOverlap, &hipDeviceProp_t::deviceOverlap},
    {hipDeviceAttributeDirectManagedMemAccessFromHost, &hipDeviceProp_t::directManagedMemAccessFromHost},
    {hipDeviceAttributeGlobalL1CacheSupported, &hipDeviceProp_t::globalL1CacheSupported},
    {hipDeviceAttributeHostNativeAtomicSupported, &hipDeviceProp_t::hostNativeAtomicSupported},
    {hipDeviceAttributeIntegrated, &hipDeviceProp_t::integrated},
    {hipDeviceAttributeIsMultiGpuBoard, &hipDeviceProp_t::isMultiGpuBoard},
    {hipDeviceAttributeKernelExecTimeout, &hipDeviceProp_t::kernelExecTimeoutEnabled},
    {hipDeviceAttributeL2CacheSize, &hipDeviceProp_t::l2CacheSize},
    {hipDeviceAttributeLocalL1CacheSupported, &hipDeviceProp_t::localL1CacheSupported},
    {hipDeviceAttributeComputeCapabilityMajor, &hipDeviceProp_t::major},
    {hipDeviceAttributeComputeCapabilityMinor, &hipDeviceProp_t::minor},
    {hipDeviceAttributeManagedMemory, &hipDeviceProp_t::managedMemory},
    {hipDeviceAttributeMaxBlocksPerMultiProcessor, &hipDeviceProp_t::maxBlocksPerMultiProcessor},
    {hipDeviceAttributeMaxThreadsPerBlock, &hipDeviceProp_t::maxThreadsPerBlock},
    {hipDeviceAttributeMaxThreadsPerMultiProcessor, &hipDeviceProp_t::maxThreadsPerMultiProcessor},
    {hipDeviceAttributeMemoryBusWidth, &hipDeviceProp_t::memoryBusWidth},
    {hipDeviceAttributeMemoryClockRate, &hipDeviceProp_t::memoryClockRate},
    {hipDeviceAttributeMultiGpuBoardGroupID, &hipDeviceProp_t::multiGpuBoardGroupID},
    {hipDeviceAttributeMultiprocessorCount, &hipDeviceProp_t::multiProcessorCount},
    {hipDeviceAttributePhysicalMultiProcessorCount, &hipDeviceProp_t::multiProcessorCount},
    {hipDeviceAttributePageableMemoryAccess, &hipDeviceProp_t::pageableMemoryAccess},
    {hipDeviceAttributePageableMemoryAccessUsesHostPageTables,
     &hipDeviceProp_t::pageableMemoryAccessUsesHostPageTables},
    {hipDeviceAttributePciBusId, &hipDeviceProp_t::pciBusID},
    {hipDeviceAttributePciDeviceId, &hipDeviceProp_t::pciDeviceID},
    {hipDeviceAttributePciDomainId, &hipDeviceProp_t::pciDomainID},
    {hipDeviceAttributePersistingL2CacheMaxSize, &hipDeviceProp_t::persistingL2CacheMaxSize},
    {hipDeviceAttributeMaxRegistersPerBlock, &hipDeviceProp_t::regsPerBlock},
    {hipDeviceAttributeMaxRegistersPerMultiprocessor, &hipDeviceProp_t::regsPerMultiprocessor},
    {hipDeviceAttributeSingleToDoublePrecisionPerfRatio, &hipDeviceProp_t::singleToDoublePrecisionPerfRatio},
    {hipDeviceAttributeStreamPrioritiesSupported, &hipDeviceProp_t::streamPrioritiesSupported},
    {hipDeviceAttributeTccDriver, &hipDeviceProp_t::tccDriver},
    {hipDeviceAttributeUnifiedAddressing, &hipDeviceProp_t::unifiedAddressing},
    {hipDeviceAttributeWarpSize, &hipDeviceProp_t::warpSize},
    {hipDeviceAttributeMemoryPoolsSupported, &hipDeviceProp_t::memoryPoolsSupported},
    {hipDeviceAttributeHostRegisterSupported, &hipDeviceProp_t::hostRegisterSupported},
    {hipDeviceAttributeWallClockRate, &hipDeviceProp_t::clockInstructionRate},
    {hipDeviceAttributeIsLargeBar, &hipDeviceProp_t::isLargeBar},
    {hipDeviceAttributeAsicRevision, &hipDeviceProp_t::asicRevision},
    {hipDeviceAttributeClockInstructionRate, &hipDeviceProp_t::clockInstructionRate},
};

constexpr SizeAttribute kSizes[] = {
    {hipDeviceAttributeMaxPitch, &hipDeviceProp_t::memPitch},
    {hipDeviceAttributeReservedSharedMemPerBlock, &hipDeviceProp_t::reservedSharedMemPerBlock},
    {hipDeviceAttributeMaxSharedMemoryPerBlock, &hipDeviceProp_t::sharedMemPerBlock},
    {hipDeviceAttributeSharedMemPerBlockOptin, &hipDeviceProp_t::sharedMemPerBlockOptin},
    {hipDeviceAttributeSharedMemPerMultiprocessor, &hipDeviceProp_t::sharedMemPerMultiprocessor},
    {hipDeviceAttributeMaxSharedMemoryPerMultiprocessor, &hipDeviceProp_t::maxSharedMemoryPerMultiProcessor},
    {hipDeviceAttributeSurfaceAlignment, &hipDeviceProp_t::surfaceAlignment},
    {hipDeviceAttributeTextureAlignment, &hipDeviceProp_t::textureAlignment},
    {hipDeviceAttributeTexturePitchAlignment, &hipDeviceProp_t::texturePitchAlignment},
    {hipDeviceAttributeTotalConstantMemory, &hipDeviceProp_t::totalConstMem},
    {hipDeviceAttributeTotalGlobalMem, &hipDeviceProp_t::totalGlobalMem},
};

// Returns whether an attribute is of something that does not exist here: textures and surfaces other than an array's,
// launches on several devices, an AMD chip.
bool is_absent(hipDeviceAttribute_t which) {
  switch (which) {
    case hipDeviceAttributeImageSupport:
    case hipDeviceAttributeDmaBufSupported:
    case hipDeviceAttributeGPUDirectRDMAWithHipVMMSupported:
    case hipDeviceAttributeHandleTypeFabricSupported:
    case hipDeviceAttributeHostNumaId:
    case hipDeviceAttributeLuid:
    case hipDeviceAttributeLuidDeviceNodeMask:
    case hipDeviceAttributeMaxAvailableVgprsPerThread:
    case hipDeviceAttributePciChipId:
    case hipDeviceAttributeExpertSchedMode:
    case hipDeviceAttributeMaxDynDataPrefetchRegions:
    case hipDeviceAttributeCooperativeMultiDeviceUnmatchedFunc:
    case hipDeviceAttributeCooperativeMultiDeviceUnmatchedGridDim:
    case hipDeviceAttributeCooperativeMultiDeviceUnmatchedBlockDim:
    case hipDeviceAttributeCooperativeMultiDeviceUnmatchedSharedMem:
      return true;
    default:
      return which >= hipDeviceAttributeMaxSurface1D && which <= hipDeviceAttributeMaxTextureCubemapLayered;
  }
}

}  // namespace

const hipDeviceProp_t &properties(int device) {
  using All = std::array<hipDeviceProp_t, kMaxDevices>;
  static const All &all = *[] {
    auto *made = new All;
    for (int i = 0; i < kMaxDevices; ++i) (*made)[i] = describe(i);
    return made;
  }();
  return all[device];
}

std::optional<int> device_attribute(hipDeviceAttribute_t which, int device) {
  const hipDeviceProp_t &p = properties(device);
  for (const IntAttribute &a : kInts) {
    if (a.which == which) return p.*a.member;
  }
  for (const SizeAttribute &a : kSizes) {
    if (a.which == which) return static_cast<int>(std::min<size_t>(p.*a.member, INT_MAX));
  }
  switch (which) {
    case hipDeviceAttributeMaxThreadsDim:
      return p.maxThreadsDim[0];
    case hipDeviceAttributeMaxBlockDimX:
    case hipDeviceAttributeMaxBlockDimY:
    case hipDeviceAttributeMaxBlockDimZ:
      return p.maxThreadsDim[which - hipDeviceAttributeMaxBlockDimX];
    case hipDeviceAttributeMaxGridDimX:
    case hipDeviceAttributeMaxGridDimY:
    case hipDeviceAttributeMaxGridDimZ:
      return p.maxGridSize[which - hipDeviceAttributeMaxGridDimX];
    case hipDeviceAttributeMaxSurface1D:
    case hipDeviceAttributeMaxSurface2D:
    case hipDeviceAttributeMaxTexture1DWidth:
    case hipDeviceAttributeMaxTexture2DWidth:
    case hipDeviceAttributeMaxTexture2DHeight:
    case hipDeviceAttributeMaxTexture3DWidth:
    case hipDeviceAttributeMaxTexture3DHeight:
      return kMostAcross;
    case hipDeviceAttributeMaxSurface3D:
    case hipDeviceAttributeMaxTexture3DDepth:
      return kMostPlanes;
    case hipDeviceAttributeCanUseStreamWaitValue:
    case hipDeviceAttributeFineGrainSupport:
    case hipDeviceAttributeNumberOfXccs:
    case hipDeviceAttributeVirtualMemoryManagementSupported:
      return 1;
    case hipDeviceAttributeMemoryPoolSupportedHandleTypes:
      return hipMemHandleTypePosixFileDescriptor;
    default:
      return is_absent(which) ? std::optional<int>(0) : std::nullopt;
  }
}

}  // namespace cpu
