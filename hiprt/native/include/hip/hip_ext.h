/* AMD's extensions of the host's interface, which hip_runtime_api.h declares. */
#ifndef HIPRT_HIP_EXT_H
#define HIPRT_HIP_EXT_H

#include "hip/hip_runtime_api.h"

#define hipExtAnyOrderLaunch 0x01

#endif
