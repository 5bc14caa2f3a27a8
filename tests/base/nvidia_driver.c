/* Stands in for NVIDIA's driver and its compiler on machines without a GPU: a device of capability 9.0 and one of 8.0,
 * a compiler whose code is the architecture that it was asked for, and a loader that refuses what its device cannot run. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_driver.h"

enum { COMPUTE_CAPABILITY_MAJOR = 75, INVALID_IMAGE = 200, BUILTIN_OPERATION_FAILURE = 7 };

static const int majors[] = {9, 8};
static __thread uintptr_t current; /* a context is its device's number plus one */

/* The arguments that a function of the driver was called with, each as a word. */
static int answer(const char *name, uintptr_t a, uintptr_t b, uintptr_t c) {
  if (!strcmp(name, "cuDeviceGetCount")) *(int *)a = sizeof majors / sizeof *majors;
  if (!strcmp(name, "cuDeviceGet")) *(int *)a = (int)b;
  if (!strcmp(name, "cuDeviceGetAttribute")) *(int *)a = (int)b == COMPUTE_CAPABILITY_MAJOR ? majors[(int)c] : 0;
  if (!strcmp(name, "cuDevicePrimaryCtxRetain")) *(uintptr_t *)a = (uintptr_t)(int)b + 1;
  if (!strcmp(name, "cuCtxSetCurrent")) current = a;
  if (!strcmp(name, "cuCtxGetCurrent")) *(uintptr_t *)a = current;
  if (!strcmp(name, "cuModuleLoadData")) {
    const char *image = (const char *)b, *own = majors[current - 1] == 9 ? "sm_90a" : "sm_80";
    return strcmp(image, own) && strncmp(image, "compute_", 8) ? INVALID_IMAGE : 0;
  }
  return 0;
}

#define STAND_IN(field, symbol, parameters)                                                                            \
  int field##_stands_in(uintptr_t a, uintptr_t b, uintptr_t c) __asm__(symbol);                                        \
  int field##_stands_in(uintptr_t a, uintptr_t b, uintptr_t c) { return answer(symbol, a, b, c); }
NV_FUNCTIONS(STAND_IN)

/* NVIDIA's own compiler asks the driver for tables, and does without. */
int cuGetExportTable(const void **table, const void *name) { return (void)name, *table = 0, hipErrorNotFound; }

/* A program is its target. Like NVRTC, it has machine code for a real architecture only, and PTX for a virtual one. */
typedef struct {
  char target[32];
} program;

static const char *code_of(const program *p, const char *kind) {
  return strncmp(p->target, kind, strlen(kind)) ? "" : p->target;
}
static size_t size_of(const char *code) { return *code ? strlen(code) + 1 : 0; }

int nvrtcVersion(int *major, int *minor) { return *major = 13, *minor = 0; }
int nvrtcCreateProgram(program **out) { return *out = calloc(1, sizeof **out), 0; }
int nvrtcDestroyProgram(program **p) { return free(*p), 0; }
int nvrtcCompileProgram(program *p, int count, const char *const *options) {
  if (!dlopen("libnvrtc-builtins.so.13.0", RTLD_NOW)) return BUILTIN_OPERATION_FAILURE;
  strcpy(p->target, "compute_75");
  for (int i = 0; i < count; i++) sscanf(options[i], "--gpu-architecture=%31s", p->target);
  return 0;
}
int nvrtcGetCUBINSize(program *p, size_t *size) { return *size = size_of(code_of(p, "sm_")), 0; }
int nvrtcGetCUBIN(program *p, char *code) { return memcpy(code, p->target, size_of(code_of(p, "sm_"))), 0; }
int nvrtcGetPTXSize(program *p, size_t *size) { return *size = size_of(code_of(p, "compute_")), 0; }
int nvrtcGetPTX(program *p, char *code) { return memcpy(code, p->target, size_of(code_of(p, "compute_"))), 0; }
int nvrtcGetProgramLogSize(program *p, size_t *size) { return (void)p, *size = 0, 0; }
int nvrtcGetProgramLog(program *p, char *log) { return (void)p, (void)log, 0; }
int nvrtcAddNameExpression(program *p, const char *name) { return (void)p, (void)name, 0; }
int nvrtcGetLoweredName(program *p, const char *name, const char **lowered) { return (void)p, *lowered = name, 0; }
