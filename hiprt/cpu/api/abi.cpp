// Checks of the layouts that programs built against AMD's headers of HIP 7.15 rely on.
#include "hip/hip_runtime.h"
#include "hip/hiprtc.h"
#include "hip/library_types.h"

#define SIZE(type, bytes) static_assert(sizeof(type) == (bytes), #type)
#define AT(type, member, offset) static_assert(offsetof(type, member) == (offset), #type "." #member)

static_assert(HIP_VERSION == 71526333, "HIP_VERSION");

SIZE(hipDeviceProp_t, 1472);
AT(hipDeviceProp_t, uuid, 256);
AT(hipDeviceProp_t, totalGlobalMem, 288);
AT(hipDeviceProp_t, sharedMemPerBlock, 296);
AT(hipDeviceProp_t, warpSize, 308);
AT(hipDeviceProp_t, memPitch, 312);
AT(hipDeviceProp_t, gcnArchName, 1160);
SIZE(hipDeviceArch_t, 4);

SIZE(dim3, 12);
SIZE(char4, 4);
SIZE(float3, 12);
SIZE(float4, 16);
SIZE(double4, 32);
SIZE(hipPointerAttribute_t, 32);
SIZE(hipFuncAttributes, 56);
SIZE(hipLaunchParams, 56);
SIZE(hipFunctionLaunchParams, 56);
SIZE(hipLaunchAttributeValue, 64);
SIZE(hipLaunchAttribute, 72);
SIZE(hipLaunchConfig_t, 56);
SIZE(HIP_LAUNCH_CONFIG, 56);
SIZE(hipStreamBatchMemOpParams, 48);

SIZE(hip_Memcpy2D, 128);
SIZE(hipMemcpy3DParms, 160);
AT(hipMemcpy3DParms, srcPtr, 32);
AT(hipMemcpy3DParms, dstArray, 64);
AT(hipMemcpy3DParms, extent, 128);
AT(hipMemcpy3DParms, kind, 152);
SIZE(hipMemcpy3DPeerParms, 168);
SIZE(HIP_MEMCPY3D, 184);
AT(HIP_MEMCPY3D, srcMemoryType, 32);
AT(HIP_MEMCPY3D, srcPitch, 64);
AT(HIP_MEMCPY3D, dstXInBytes, 80);
AT(HIP_MEMCPY3D, WidthInBytes, 160);

SIZE(hipKernelNodeParams, 64);
AT(hipKernelNodeParams, extra, 16);
AT(hipKernelNodeParams, func, 24);
AT(hipKernelNodeParams, gridDim, 32);
AT(hipKernelNodeParams, kernelParams, 48);
AT(hipKernelNodeParams, sharedMemBytes, 56);
SIZE(hipMemsetParams, 48);
AT(hipMemsetParams, elementSize, 8);
AT(hipMemsetParams, value, 32);
SIZE(hipHostNodeParams, 16);
SIZE(hipMemcpyNodeParams, 176);
SIZE(hipMemPoolProps, 88);
AT(hipMemPoolProps, maxSize, 24);
SIZE(hipMemAllocNodeParams, 120);
AT(hipMemAllocNodeParams, dptr, 112);
SIZE(hipMemAccessDesc, 12);
SIZE(hipMemLocation, 8);
SIZE(hipMemPoolPtrExportData, 64);
SIZE(hipBatchMemOpNodeParams, 32);
SIZE(hipGraphNodeParams, 256);
AT(hipGraphNodeParams, kernel, 16);
AT(hipGraphNodeParams, reserved2, 248);
SIZE(hipGraphInstantiateParams, 32);
AT(hipGraphInstantiateParams, uploadStream, 24);
SIZE(hipGraphEdgeData, 8);
AT(hipGraphEdgeData, to_port, 6);

// Enumerations cross the interface as int.
SIZE(hipError_t, 4);
SIZE(hiprtcResult, 4);
SIZE(hipMemcpyKind, 4);
SIZE(hipDataType, 4);
