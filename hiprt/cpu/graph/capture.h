// Stream capture: work submitted to a capturing stream becomes nodes of a graph, chained by each stream's tail nodes.
//
// The hooks below are called by the API functions that capture changes. All are cheap while nothing captures and safe
// from any thread; they take locks, so call them without holding one. A hook that returns an error has already
// invalidated the captures that HIP says it must.
#pragma once

#include <memory>

#include "hip/hip_runtime_api.h"
#include "runtime/work.h"

namespace cpu {

struct Action;
struct Capture;

// stream.cpp submit(): capture_of(stream) is not null. The capture may end meanwhile: then 901 or 400, never a crash.
hipError_t capture_add(Capture *capture, hipStream_t stream, std::shared_ptr<Work> work);
hipError_t capture_add(Capture *capture, hipStream_t stream, Action action);

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

// hipEventRecord on a capturing stream: the event now means the stream's tail; external (a flag of HIP's): a node.
hipError_t capture_event_record(Capture *capture, hipStream_t stream, hipEvent_t event, bool external);
// hipStreamWaitEvent, called for every stream (capturing or not). True: the wait was dealt with (joined the capture, or
// *error); false: neither side captures, queue an ordinary wait.
bool capture_event_wait(hipStream_t stream, hipEvent_t event, bool external, hipError_t *error);
// The event is recorded outside a capture, or destroyed: it no longer stands for a point of a capture.
void capture_event_forget(hipEvent_t event);
// The stream is being destroyed: a capture it belongs to is invalidated and lets go of it.
void capture_stream_destroyed(hipStream_t stream);

}  // namespace cpu
