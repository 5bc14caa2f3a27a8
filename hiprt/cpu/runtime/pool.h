// Stream-ordered memory pools: hipMallocAsync, hipFreeAsync and the pool API.
//
// A freed block is handed out again at once on the stream that freed it. Another stream gets it when the free is known
// to come before: it has run (opportunistic), or the stream waited for an event recorded after it, or is made to wait.
#pragma once

#include <cstddef>

#include "hip/hip_runtime_api.h"

namespace cpu {

// hipFree of pool memory: the caller vouches that nothing uses it any more. False: not a live pool allocation.
bool pool_free_now(void *address);

// After any stream, event or device synchronisation: give memory above the pools' release thresholds back.
void pool_release_unused();

// Ordering known from events: call after hipEventRecord / hipStreamWaitEvent outside capture, and on destruction.
void pool_event_recorded(hipEvent_t event, hipStream_t stream);
void pool_event_waited(hipStream_t stream, hipEvent_t event);
void pool_event_destroyed(hipEvent_t event);
void pool_stream_destroyed(hipStream_t stream);

}  // namespace cpu
