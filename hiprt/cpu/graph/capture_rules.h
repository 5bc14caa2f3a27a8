// What HIP forbids while streams capture.
//
// API functions ask before they do anything; each rule that is broken invalidates the captures that HIP says it must. All
// are cheap while nothing captures and safe from any thread; they take locks, so call them without holding one.
#pragma once

#include "hip/hip_runtime_api.h"

namespace cpu {

// Sets the calling thread's mode, which decides how far captures of other threads concern it; returns the former one.
hipStreamCaptureMode exchange_thread_mode(hipStreamCaptureMode mode);
// Whether the legacy stream would make a capturing stream depend on it. The caller holds graph_mutex().
bool legacy_would_join();

// Calls that are unsafe beside a capture (hipMalloc, hipFree, hipHostMalloc, hipHostRegister, pool creation, ...): 900.
hipError_t capture_forbids_alloc();
// The same for calls that HIP checks since 7.0 only (pool creation, hipDeviceSetMemPool, hipMemAdvise, ...).
hipError_t capture_forbids_since_7();
// hipStreamAddCallback: as a synchronisation, since HIP 7.0.
hipError_t capture_forbids_callback(hipStream_t stream);
// hipStreamSynchronize, hipStreamQuery and their kin on any stream: 900, or 906 for the legacy stream.
hipError_t capture_forbids_sync(hipStream_t stream);
// hipDeviceSynchronize, hipDeviceReset: 900.
hipError_t capture_forbids_device_sync();
// Synchronous hipMemcpy*, hipMemset*: 906.
hipError_t capture_forbids_implicit();
// Any asynchronous work given to the legacy null stream: 906 while a blocking stream captures.
hipError_t capture_forbids_legacy();
// Calls on a stream that have no meaning in a graph (hipStreamAddCallback, hipGraphLaunch, ...): 900 if it captures.
hipError_t capture_forbids_on(hipStream_t stream);
// hipEventQuery, hipEventSynchronize, hipEventElapsedTime: 907 for an event recorded in a capture, else by mode 900.
hipError_t capture_forbids_event(hipEvent_t event, bool query = false);

}  // namespace cpu
