/* Host side of HIP. Device code is compiled against the headers of its target instead. */
#ifndef HIPRT_HIP_RUNTIME_H
#define HIPRT_HIP_RUNTIME_H

#include "hip/host_defines.h"
#include "hip/hip_runtime_api.h"
#include "hip/hip_vector_types.h"
#ifndef __HIPRT_HIPCC__
#include "hip/channel_descriptor.h"
#endif

#endif
