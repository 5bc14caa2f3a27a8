// Streams: the live ones behind their handles, and how work is queued on them.
//
// Every API call that means device work makes a Work and queues it. The device thread (scheduler.h) takes the head of a
// random stream that is ready, so that a missing dependency shows up in a test. Null-stream semantics are HIP's: the
// legacy null stream waits for, and holds back, all blocking streams of the device.
#pragma once

#include <memory>
#include <vector>

#include "hip/hip_runtime_api.h"
#include "runtime/work.h"

namespace cpu {

struct Capture;  // graph/capture.h
struct Stream;   // scheduler.h

// Makes a stream of the current device.
hipStream_t add_stream(unsigned flags, int priority);
// Ends the handle; the stream lives on until its work is done. False if the handle is not live: of two threads that
// remove a stream one succeeds.
bool remove_stream(hipStream_t stream);
// Returns the streams of a device that have handles: those that the application made, and those of hipStreamPerThread.
std::vector<hipStream_t> streams_of(int device);

// Queues work, whether or not the stream captures (api/submit.h asks). hipErrorInvalidHandle for a destroyed stream.
hipError_t enqueue(hipStream_t stream, std::shared_ptr<Work> work);

bool is_valid(hipStream_t stream);
// Returns the status of a call whose stream or event is not there, or not any more.
hipError_t no_such_handle();
bool is_legacy(hipStream_t stream);
// Returns the stream's own handle, which means the same stream in every thread, as hipStreamPerThread does not.
hipStream_t canonical(hipStream_t stream);
// Returns a name of the stream by which all threads mean the same one; it tells the null streams of devices apart.
hipStream_t stream_key(hipStream_t stream);
// Returns the stream behind a handle, or null.
std::shared_ptr<Stream> find_stream(hipStream_t stream);

// Returns the capture that the stream belongs to, or null. Only graph/capture.cpp sets it.
Capture *capture_of(hipStream_t stream);
void set_capture(hipStream_t stream, Capture *capture);

}  // namespace cpu
