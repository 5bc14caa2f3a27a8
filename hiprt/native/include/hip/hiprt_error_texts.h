/* What HIP says of each of its error codes: X(code, meaning). */
#ifndef HIP_HIPRT_ERROR_TEXTS_H
#define HIP_HIPRT_ERROR_TEXTS_H

#define HIPRT_ERROR_TEXTS(X) \
  X(hipSuccess, "no error") \
  X(hipErrorInvalidValue, "invalid argument") \
  X(hipErrorOutOfMemory, "out of memory") \
  X(hipErrorNotInitialized, "initialization error") \
  X(hipErrorDeinitialized, "driver shutting down") \
  X(hipErrorProfilerDisabled, "profiler disabled while using external profiling tool") \
  X(hipErrorProfilerNotInitialized, "profiler is not initialized") \
  X(hipErrorProfilerAlreadyStarted, "profiler already started") \
  X(hipErrorProfilerAlreadyStopped, "profiler already stopped") \
  X(hipErrorInvalidConfiguration, "invalid configuration argument") \
  X(hipErrorInvalidPitchValue, "invalid pitch argument") \
  X(hipErrorInvalidSymbol, "invalid device symbol") \
  X(hipErrorInvalidDevicePointer, "invalid device pointer") \
  X(hipErrorInvalidMemcpyDirection, "invalid copy direction for memcpy") \
  X(hipErrorInsufficientDriver, "driver version is insufficient for runtime version") \
  X(hipErrorMissingConfiguration, "kernel call without a launch configuration") \
  X(hipErrorPriorLaunchFailure, "failure of a prior launch") \
  X(hipErrorInvalidDeviceFunction, "invalid device function") \
  X(hipErrorNoDevice, "no device is available") \
  X(hipErrorInvalidDevice, "invalid device ordinal") \
  X(hipErrorInvalidImage, "device kernel image is invalid") \
  X(hipErrorInvalidContext, "invalid device context") \
  X(hipErrorContextAlreadyCurrent, "context is already current") \
  X(hipErrorMapFailed, "mapping of buffer object failed") \
  X(hipErrorUnmapFailed, "unmapping of buffer object failed") \
  X(hipErrorArrayIsMapped, "array is mapped") \
  X(hipErrorAlreadyMapped, "resource already mapped") \
  X(hipErrorNoBinaryForGpu, "no kernel image is available for execution on the device") \
  X(hipErrorAlreadyAcquired, "resource already acquired") \
  X(hipErrorNotMapped, "resource not mapped") \
  X(hipErrorNotMappedAsArray, "resource not mapped as array") \
  X(hipErrorNotMappedAsPointer, "resource not mapped as pointer") \
  X(hipErrorECCNotCorrectable, "uncorrectable ECC error encountered") \
  X(hipErrorUnsupportedLimit, "limit is not supported on this device") \
  X(hipErrorContextAlreadyInUse, "exclusive-thread device already in use by another thread") \
  X(hipErrorPeerAccessUnsupported, "peer access is not supported between these two devices") \
  X(hipErrorInvalidKernelFile, "invalid kernel file") \
  X(hipErrorInvalidGraphicsContext, "invalid graphics context") \
  X(hipErrorInvalidSource, "device kernel source is invalid") \
  X(hipErrorFileNotFound, "file not found") \
  X(hipErrorSharedObjectSymbolNotFound, "shared object symbol not found") \
  X(hipErrorSharedObjectInitFailed, "shared object initialization failed") \
  X(hipErrorOperatingSystem, "operating system call failed") \
  X(hipErrorInvalidHandle, "invalid resource handle") \
  X(hipErrorIllegalState, "the operation cannot be performed in the present state") \
  X(hipErrorNotFound, "named symbol not found") \
  X(hipErrorNotReady, "device not ready") \
  X(hipErrorIllegalAddress, "an illegal memory access was encountered") \
  X(hipErrorLaunchOutOfResources, "too many resources requested for launch") \
  X(hipErrorLaunchTimeOut, "the launch timed out and was terminated") \
  X(hipErrorPeerAccessAlreadyEnabled, "peer access is already enabled") \
  X(hipErrorPeerAccessNotEnabled, "peer access has not been enabled") \
  X(hipErrorSetOnActiveProcess, "cannot set while device is active in this process") \
  X(hipErrorContextIsDestroyed, "context is destroyed") \
  X(hipErrorAssert, "device-side assert triggered") \
  X(hipErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped") \
  X(hipErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region") \
  X(hipErrorLaunchFailure, "unspecified launch failure") \
  X(hipErrorCooperativeLaunchTooLarge, "too many blocks in cooperative launch") \
  X(hipErrorNotSupported, "operation not supported") \
  X(hipErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing") \
  X(hipErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture") \
  X(hipErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences") \
  X(hipErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began") \
  X(hipErrorStreamCaptureUnjoined, "capturing stream has unjoined work") \
  X(hipErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream") \
  X(hipErrorStreamCaptureImplicit, "operation would make the legacy stream depend on a capturing blocking stream") \
  X(hipErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream") \
  X(hipErrorStreamCaptureWrongThread, "attempt to terminate a thread-local capture sequence from another thread") \
  X(hipErrorGraphExecUpdateFailure, "the graph cannot be updated in place: instantiate it again") \
  X(hipErrorInvalidChannelDescriptor, "invalid channel descriptor") \
  X(hipErrorInvalidTexture, "invalid texture") \
  X(hipErrorInvalidResourceType, "invalid resource type") \
  X(hipErrorInvalidResourceConfiguration, "invalid resource configuration") \
  X(hipErrorStreamDetached, "stream is detached") \
  X(hipErrorUnknown, "unknown error") \
  X(hipErrorRuntimeMemory, "runtime memory call returned error") \
  X(hipErrorRuntimeOther, "runtime call other than memory returned error") \
  X(hipErrorInvalidClusterSize, "invalid cluster size") \
  X(hipErrorTbd, "to be determined")

#endif
