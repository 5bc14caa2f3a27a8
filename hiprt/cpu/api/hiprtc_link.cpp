// hiprtcLink*: nothing can be linked here, as hiprtc makes finished code objects and no bitcode.
#include "hip/hip_jit_types.h"
#include "hip/hiprtc.h"

#define HIPRT_EXPORT extern "C" __attribute__((visibility("default")))

typedef struct ihiprtcLinkState *hiprtcLinkState;

HIPRT_EXPORT hiprtcResult hiprtcLinkCreate(unsigned, hipJitOption *, void **, hiprtcLinkState *) {
  return HIPRTC_ERROR_LINKING;
}
HIPRT_EXPORT hiprtcResult hiprtcLinkAddFile(hiprtcLinkState, hipJitInputType, const char *, unsigned, hipJitOption *, void **) {
  return HIPRTC_ERROR_LINKING;
}
HIPRT_EXPORT hiprtcResult hiprtcLinkAddData(hiprtcLinkState, hipJitInputType, void *, size_t, const char *, unsigned,
                                            hipJitOption *, void **) {
  return HIPRTC_ERROR_LINKING;
}
HIPRT_EXPORT hiprtcResult hiprtcLinkComplete(hiprtcLinkState, void **, size_t *) { return HIPRTC_ERROR_LINKING; }
HIPRT_EXPORT hiprtcResult hiprtcLinkDestroy(hiprtcLinkState) { return HIPRTC_ERROR_LINKING; }
