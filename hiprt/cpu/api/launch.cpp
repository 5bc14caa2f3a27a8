// HIP's functions that launch kernels.
#include <algorithm>
#include <set>

#include "api/submit.h"
#include "flags.h"
#include "graph/capture.h"
#include "quirks/quirks.h"
#include "runtime/device.h"
#include "runtime/launch.h"
#include "runtime/scheduler.h"
#include "runtime/status.h"
#include "runtime/stream.h"

namespace cpu {
namespace {

hipError_t launch(const void *func, const Geometry &geometry, hipStream_t stream, void **params, void **extra) {
  std::shared_ptr<KernelWork> work;
  const hipError_t error = make_launch(func, geometry, params, extra, &work);
  return error ? error : submit(stream, std::move(work));
}

// Launches a kernel whose blocks have to be resident all at once.
hipError_t launch_cooperative(const void *func, const Geometry &geometry, hipStream_t stream, void **params) {
  std::shared_ptr<KernelWork> work;
  if (const hipError_t error = make_launch(func, geometry, params, nullptr, &work)) return error;
  if (!work->fits_at_once()) return hipErrorCooperativeLaunchTooLarge;
  work->is_cooperative = true;
  return submit(stream, std::move(work));
}

// A kernel of a module is a handle; one of the program is a function.
hipError_t by_handle(hipError_t error) { return error == hipErrorInvalidDeviceFunction ? hipErrorInvalidHandle : error; }

// Before HIP 7.0 launches on a stream that is not there have a status of their own, but for hipLaunchCooperativeKernel (hip_module.cpp:494,
// :528, :564, :765 and ihipLaunchKernel in hip_platform.cpp of ROCm/clr @f9f995c6d).
hipError_t by_stream(hipError_t error) { return error == hipErrorContextIsDestroyed ? hipErrorInvalidValue : error; }

// Reads the attributes of an extended launch. Those that can change what a kernel computes are obeyed or refused.
hipError_t read_attributes(const hipLaunchAttribute *attributes, unsigned count, bool *cooperative) {
  *cooperative = false;
  if (count && !attributes) return hipErrorInvalidValue;
  for (unsigned i = 0; i < count; ++i) {
    const hipLaunchAttributeValue &value = attributes[i].value;
    switch (attributes[i].id) {
      case hipLaunchAttributeCooperative:
        *cooperative = value.cooperative != 0;
        break;
      case hipLaunchAttributeClusterDimension:
        if (std::max({value.clusterDim.x, value.clusterDim.y, value.clusterDim.z}) > 1) return hipErrorInvalidClusterSize;
        break;
      case hipLaunchAttributeIgnore:
      case hipLaunchAttributePriority:
      case hipLaunchAttributeAccessPolicyWindow:
      case hipLaunchAttributeSynchronizationPolicy:
      case hipLaunchAttributeClusterSchedulingPolicyPreference:
      case hipLaunchAttributeMemSyncDomainMap:
      case hipLaunchAttributeMemSyncDomain:
      case hipLaunchAttributeExtDynDataPrefetch:
        break;
      default:
        return hipErrorInvalidValue;
    }
  }
  return hipSuccess;
}

hipError_t launch_extended(const void *func, const Geometry &geometry, hipStream_t stream, void **params, void **extra,
                           const hipLaunchAttribute *attributes, unsigned count) {
  bool cooperative = false;
  if (const hipError_t error = read_attributes(attributes, count, &cooperative)) return error;
  if (cooperative && extra) return hipErrorInvalidValue;
  const hipError_t error = cooperative ? launch_cooperative(func, geometry, stream, params)
                                       : launch(func, geometry, stream, params, extra);
  if (!error) capture_attributes(canonical(stream), attributes, count);
  return error;
}

// Launches a kernel between two events, which time it.
hipError_t launch_timed(const void *func, const Geometry &geometry, hipStream_t stream, void **params, void **extra,
                        hipEvent_t start, hipEvent_t stop) {
  std::shared_ptr<KernelWork> work;
  if (const hipError_t error = make_launch(func, geometry, params, extra, &work)) return error;
  if (start) {
    if (const hipError_t error = hipEventRecord(start, stream)) return error;
  }
  if (const hipError_t error = submit(stream, std::move(work))) return error;
  return stop ? hipEventRecord(stop, stream) : hipSuccess;
}

// Checks a list of launches on several devices: each is named once, by a stream of its own.
template <class Launch, class StreamOf>
hipError_t check_launches(const Launch *all, int count, unsigned how, StreamOf &&stream_of) {
  constexpr unsigned kKnown = hipCooperativeLaunchMultiDeviceNoPreSync | hipCooperativeLaunchMultiDeviceNoPostSync;
  if (!all || count <= 0 || count > flags().devices || (how & ~kKnown)) return hipErrorInvalidValue;
  std::set<int> devices;
  for (int i = 0; i < count; ++i) {
    const hipStream_t named = stream_of(all[i]);
    if (!named || !is_valid(named)) return hipErrorInvalidResourceHandle;
    if (!devices.insert(find_stream(named)->device).second) return hipErrorInvalidDevice;
  }
  return hipSuccess;
}

// Launches kernels that do not wait for each other, one on each device, around which the streams are waited for.
hipError_t launch_each(const hipLaunchParams *all, int count, unsigned flags) {
  const auto stream_of = [](const hipLaunchParams &one) { return one.stream; };
  if (const hipError_t error = check_launches(all, count, flags, stream_of)) return error;
  const auto finish = [&](unsigned unless) {
    hipError_t error = hipSuccess;
    for (int i = 0; i < count && !error && !(flags & unless); ++i) error = hipStreamSynchronize(all[i].stream);
    return error;
  };
  if (const hipError_t error = finish(hipCooperativeLaunchMultiDeviceNoPreSync)) return error;
  const int before = current_device();
  hipError_t error = hipSuccess;
  for (int i = 0; i < count && !error; ++i) {
    const hipLaunchParams &one = all[i];
    error = hipSetDevice(find_stream(one.stream)->device);
    if (!error) error = launch(one.func, {one.gridDim, one.blockDim, static_cast<unsigned>(one.sharedMem)}, one.stream, one.args, nullptr);
  }
  (void)hipSetDevice(before);
  return error ? error : finish(hipCooperativeLaunchMultiDeviceNoPostSync);
}

}  // namespace
}  // namespace cpu

using namespace cpu;

hipError_t hipModuleLaunchKernel(hipFunction_t f, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                                 unsigned int block_x, unsigned int block_y, unsigned int block_z,
                                 unsigned int shared, hipStream_t stream, void **params, void **extra) {
  return api([&] {
    return by_stream(by_handle(launch(f, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared}, stream, params, extra)));
  });
}

hipError_t hipModuleLaunchCooperativeKernel(hipFunction_t f, unsigned int grid_x, unsigned int grid_y,
                                            unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                            unsigned int block_z, unsigned int shared, hipStream_t stream,
                                            void **params) {
  return api([&] {
    return by_stream(by_handle(launch_cooperative(f, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared}, stream, params)));
  });
}

hipError_t hipExtModuleLaunchKernel(hipFunction_t f, uint32_t threads_x, uint32_t threads_y, uint32_t threads_z,
                                    uint32_t block_x, uint32_t block_y, uint32_t block_z, size_t shared,
                                    hipStream_t stream, void **params, void **extra, hipEvent_t start,
                                    hipEvent_t stop, uint32_t) {
  return api([&] {
    if (!block_x || !block_y || !block_z) return hipErrorInvalidConfiguration;
    if (shared > kSharedMemory) return hipErrorInvalidValue;
    if (std::max({block_x, block_y, block_z}) > kMaxThreadsPerBlock) return hipErrorInvalidValue;
    if (block_x * block_y * block_z > kMaxThreadsPerBlock) return hipErrorInvalidValue;  // whatever the grid leaves of it
    block_x = std::min(block_x, threads_x), block_y = std::min(block_y, threads_y), block_z = std::min(block_z, threads_z);
    if (!block_x || !block_y || !block_z) return hipErrorInvalidValue;
    // Sizes are in threads. Blocks that are cut short at the edge are an extension of AMD's that the engine does not
    // have.
    if (threads_x % block_x || threads_y % block_y || threads_z % block_z) return hipErrorInvalidValue;
    const Geometry geometry{{threads_x / block_x, threads_y / block_y, threads_z / block_z},
                            {block_x, block_y, block_z},
                            static_cast<uint32_t>(shared)};
    return by_stream(by_handle(launch_timed(f, geometry, stream, params, extra, start, stop)));
  });
}

hipError_t hipLaunchKernel(const void *func, dim3 grid, dim3 block, void **params, size_t shared, hipStream_t stream) {
  return api([&] {
    if (shared > kSharedMemory) return hipErrorInvalidValue;
    // Some of CLR's eager paths let an empty grid pass that AddKernelNode refuses; those of modules do not (hip_module.cpp:264
    // of ROCm/clr @f9f995c6d).
    if ((!grid.x || !grid.y || !grid.z) && quirk(Quirk::ZeroDimReject)) return hipSuccess;
    return by_stream(launch(func, {grid, block, static_cast<uint32_t>(shared)}, stream, params, nullptr));
  });
}

hipError_t hipExtLaunchKernel(const void *func, dim3 grid, dim3 block, void **params, size_t shared,
                              hipStream_t stream, hipEvent_t start, hipEvent_t stop, int) {
  return api([&] {
    if (shared > kSharedMemory) return hipErrorInvalidValue;
    return by_stream(launch_timed(func, {grid, block, static_cast<uint32_t>(shared)}, stream, params, nullptr, start, stop));
  });
}

hipError_t hipLaunchCooperativeKernel(const void *func, dim3 grid, dim3 block, void **params, unsigned int shared,
                                      hipStream_t stream) {
  return api([&] { return launch_cooperative(func, {grid, block, shared}, stream, params); });
}

hipError_t hipLaunchKernelExC(const hipLaunchConfig_t *config, const void *func, void **params) {
  return api([&] {
    if (!config || config->dynamicSmemBytes > kSharedMemory) return hipErrorInvalidValue;
    const Geometry geometry{config->gridDim, config->blockDim, static_cast<uint32_t>(config->dynamicSmemBytes)};
    return by_stream(launch_extended(func, geometry, config->stream, params, nullptr, config->attrs, config->numAttrs));
  });
}

hipError_t hipDrvLaunchKernelEx(const HIP_LAUNCH_CONFIG *config, hipFunction_t f, void **params, void **extra) {
  return api([&] {
    if (!config) return hipErrorInvalidValue;
    const Geometry geometry{{config->gridDimX, config->gridDimY, config->gridDimZ},
                            {config->blockDimX, config->blockDimY, config->blockDimZ},
                            config->sharedMemBytes};
    return by_stream(by_handle(launch_extended(f, geometry, config->hStream, params, extra, config->attrs, config->numAttrs)));
  });
}

hipError_t hipHccModuleLaunchKernel(hipFunction_t f, uint32_t threads_x, uint32_t threads_y, uint32_t threads_z,
                                    uint32_t block_x, uint32_t block_y, uint32_t block_z, size_t shared,
                                    hipStream_t stream, void **params, void **extra, hipEvent_t start, hipEvent_t stop) {
  return hipExtModuleLaunchKernel(f, threads_x, threads_y, threads_z, block_x, block_y, block_z, shared, stream, params, extra,
                                  start, stop, 0);
}

hipError_t hipExtLaunchMultiKernelMultiDevice(hipLaunchParams *launchParamsList, int numDevices, unsigned int flags) {
  return api([&] { return launch_each(launchParamsList, numDevices, flags); });
}

// A grid over several devices needs a barrier between them, which the properties deny.
hipError_t hipLaunchCooperativeKernelMultiDevice(hipLaunchParams *launchParamsList, int numDevices, unsigned int flags) {
  return api([&] {
    const hipError_t error =
        check_launches(launchParamsList, numDevices, flags, [](const hipLaunchParams &one) { return one.stream; });
    return error ? error : hipErrorLaunchFailure;
  });
}

hipError_t hipModuleLaunchCooperativeKernelMultiDevice(hipFunctionLaunchParams *launchParamsList, unsigned int numDevices,
                                                       unsigned int flags) {
  return api([&] {
    const hipError_t error = check_launches(launchParamsList, static_cast<int>(numDevices), flags,
                                            [](const hipFunctionLaunchParams &one) { return one.hStream; });
    return error ? error : hipErrorLaunchFailure;
  });
}
