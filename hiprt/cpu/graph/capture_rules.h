// What HIP forbids while streams capture.
//
// API functions ask before they do anything. A rule that is broken invalidates the captures that HIP says it must, and
// its error is the result. All of these cost next to nothing while nothing captures, and any thread may call them; they
// take locks, so that the caller holds none. The numbers are those of hipError_t.
#pragma once

#include "hip/hip_runtime_api.h"

namespace cpu {

struct Event;

// Sets the calling thread's mode, which decides how far captures of other threads concern it; returns the former one.
hipStreamCaptureMode exchange_thread_mode(hipStreamCaptureMode mode);
// Returns whether the legacy stream would make a capturing stream depend on it. The caller holds graph_mutex().
bool legacy_would_join();

// 900 for calls that are unsafe beside a capture (hipMalloc, hipFree, hipHostMalloc, hipHostRegister, ...).
hipError_t capture_forbids_alloc();
// The same for calls that HIP checks since 7.0 (pool creation, hipDeviceSetMemPool, hipMemAdvise, ...).
hipError_t capture_forbids_since_7();
// The rule of hipStreamAddCallback, which counts as a synchronisation since HIP 7.0.
hipError_t capture_forbids_callback(hipStream_t stream);
// The rule of hipStreamSynchronize, hipStreamQuery and their kin on any stream: 900, or 906 for the legacy stream.
hipError_t capture_forbids_sync(hipStream_t stream);
// The rule of hipDeviceSynchronize and hipDeviceReset: 900.
hipError_t capture_forbids_device_sync();
// The rule of synchronous copies and fills: 906.
hipError_t capture_forbids_implicit();
// The rule of asynchronous work on the legacy null stream: 906 while a blocking stream captures.
hipError_t capture_forbids_legacy();
// The rule of calls that have no meaning in a graph (hipGraphLaunch, ...): 900 if the stream captures.
hipError_t capture_forbids_on(hipStream_t stream);
// The rule of hipEventQuery, hipEventSynchronize and hipEventElapsedTime: 907 for an event recorded in a capture, else
// 900 if the modes say so.
hipError_t capture_forbids_event(hipEvent_t event, bool query = false);
// What CLR refuses of hipEventQuery and hipEventSynchronize because of the stream where the event was recorded last: 907.
hipError_t capture_forbids_asking(const Event &event);

}  // namespace cpu
