/* The functions of the HIP library in use, and those of its compiler.
 *
 * The tables are filled once, by the thread that opens a library, and any thread reads them from then on. */
#pragma once
#include "hip/hip_runtime_api.h"
#include "hip/hiprtc.h"
#include "hip_functions.h"

typedef struct {
#define HIPRT_FIELD(name, parameters) hipError_t(*name) parameters;
  HIPRT_HIP_FUNCTIONS(HIPRT_FIELD)
  HIPRT_HIP_OPTIONAL(HIPRT_FIELD)
#undef HIPRT_FIELD
  const char *(*hipKernelNameRef)(hipFunction_t); /* optional, and the only one that returns no status */
} hiprt_functions;

typedef struct {
#define HIPRT_FIELD(name, parameters) hiprtcResult(*name) parameters;
  HIPRT_HIPRTC_FUNCTIONS(HIPRT_FIELD)
#undef HIPRT_FIELD
} hiprt_compiler_functions;

extern hiprt_functions hiprt_hip;             /* all NULL until a library is open */
extern hiprt_compiler_functions hiprt_hiprtc; /* all NULL until a compiler is open */
int hiprt_library_is_open(void);

/* cffi begin */
/* Whether the process was forked from one that had opened a library. No HIP library works there: every HIP function of
 * the tables gives HIPRT_E_FORKED, but for those that destroy, which do nothing: what is dropped there is the parent's.
 * The core waits for no lock there that another thread of the parent may have held. */
extern int hiprt_is_forked;
/* Open the library at `path` and fill the function table. The choice is final for the process. */
int hiprt_library_open(const char *path);
/* Open the library of hiprtc, once, before any of its functions is called. */
int hiprt_compiler_open(const char *path);
/* cffi end */
