/* The function table of the HIP library in use. */
#pragma once
#include "hip/hip_runtime_api.h"
#include "hip_functions.h"

typedef struct {
#define HIPRT_FIELD(name, parameters) hipError_t(*name) parameters;
  HIPRT_HIP_FUNCTIONS(HIPRT_FIELD)
  HIPRT_HIP_OPTIONAL(HIPRT_FIELD)
#undef HIPRT_FIELD
} hiprt_functions;

extern hiprt_functions hiprt_hip; /* all NULL until a library is open */
int hiprt_library_is_open(void);
