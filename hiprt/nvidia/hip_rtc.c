/* hiprtc, by NVRTC, which is opened at the first call. hiprtcResult and nvrtcResult have the same numbers. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_driver.h"
#include "hip/hiprtc.h"

#define RTC_FUNCTIONS(X)                                                                                               \
  X(nvrtcVersion, (int *, int *))                                                                                      \
  X(nvrtcCreateProgram, (void **, const char *, const char *, int, const char *const *, const char *const *))          \
  X(nvrtcDestroyProgram, (void **))                                                                                    \
  X(nvrtcCompileProgram, (void *, int, const char *const *))                                                           \
  X(nvrtcGetCUBINSize, (void *, size_t *))                                                                             \
  X(nvrtcGetCUBIN, (void *, char *))                                                                                   \
  X(nvrtcGetPTXSize, (void *, size_t *))                                                                               \
  X(nvrtcGetPTX, (void *, char *))                                                                                     \
  X(nvrtcGetProgramLogSize, (void *, size_t *))                                                                        \
  X(nvrtcGetProgramLog, (void *, char *))                                                                              \
  X(nvrtcAddNameExpression, (void *, const char *))                                                                    \
  X(nvrtcGetLoweredName, (void *, const char *, const char **))

static struct {
  pthread_once_t once;
  int is_open;
#define RTC_FIELD(name, parameters) int(*name) parameters;
  RTC_FUNCTIONS(RTC_FIELD)
#undef RTC_FIELD
} rtc = {.once = PTHREAD_ONCE_INIT};

/* NVRTC opens a second library by name only. It is found once it is open, wherever NVRTC itself was found. */
static void open_builtins(void) {
  Dl_info info;
  int major = 0, minor = 0;
  if (!dladdr(*(void **)&rtc.nvrtcVersion, &info) || rtc.nvrtcVersion(&major, &minor)) return;
  const char *end = strrchr(info.dli_fname, '/');
  char path[PATH_MAX];
  const int folder = end ? (int)(end - info.dli_fname) + 1 : 0;
  const int length =
      snprintf(path, sizeof path, "%.*slibnvrtc-builtins.so.%d.%d", folder, info.dli_fname, major, minor);
  if (folder && length < (int)sizeof path) dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void open_compiler(void) {
  static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
  const char *chosen = getenv("HIPRT_NVRTC_LIB");
  void *library = chosen && *chosen ? dlopen(chosen, RTLD_NOW | RTLD_LOCAL) : 0;
  for (size_t i = 0; !library && i < sizeof names / sizeof *names; i++)
    library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
  if (!library) return;
#define RTC_LOOK_UP(name, parameters)                                                                                  \
  *(void **)&rtc.name = dlsym(library, #name);                                                                         \
  if (!rtc.name) return;
  RTC_FUNCTIONS(RTC_LOOK_UP)
#undef RTC_LOOK_UP
  open_builtins();
  rtc.is_open = 1;
}

static int missing(void) {
  pthread_once(&rtc.once, open_compiler);
  return !rtc.is_open;
}

#define RTC(call)                                                                                                      \
  return missing() ? HIPRTC_ERROR_INTERNAL_ERROR : (hiprtcResult)rtc.call

hiprtcResult hiprtcVersion(int *major, int *minor) { RTC(nvrtcVersion(major, minor)); }
hiprtcResult hiprtcCreateProgram(hiprtcProgram *program, const char *source, const char *name, int count,
                                 const char *const *headers, const char *const *names) {
  RTC(nvrtcCreateProgram((void **)program, source, name, count, headers, names));
}
hiprtcResult hiprtcDestroyProgram(hiprtcProgram *program) { RTC(nvrtcDestroyProgram((void **)program)); }
hiprtcResult hiprtcAddNameExpression(hiprtcProgram program, const char *name) {
  RTC(nvrtcAddNameExpression(program, name));
}
hiprtcResult hiprtcGetLoweredName(hiprtcProgram program, const char *name, const char **lowered) {
  RTC(nvrtcGetLoweredName(program, name, lowered));
}

/* For a virtual architecture, such as compute_90, there is no machine code: the driver loads PTX as well. */
hiprtcResult hiprtcGetCodeSize(hiprtcProgram program, size_t *size) {
  if (missing()) return HIPRTC_ERROR_INTERNAL_ERROR;
  int status = rtc.nvrtcGetCUBINSize(program, size);
  if (!status && !*size) status = rtc.nvrtcGetPTXSize(program, size);
  return (hiprtcResult)status;
}
hiprtcResult hiprtcGetCode(hiprtcProgram program, char *code) {
  size_t size = 0;
  if (missing()) return HIPRTC_ERROR_INTERNAL_ERROR;
  int status = rtc.nvrtcGetCUBINSize(program, &size);
  if (!status) status = size ? rtc.nvrtcGetCUBIN(program, code) : rtc.nvrtcGetPTX(program, code);
  return (hiprtcResult)status;
}

hiprtcResult hiprtcGetProgramLogSize(hiprtcProgram program, size_t *size) { RTC(nvrtcGetProgramLogSize(program, size)); }
hiprtcResult hiprtcGetProgramLog(hiprtcProgram program, char *log) { RTC(nvrtcGetProgramLog(program, log)); }

/* Return NVRTC's spelling of one of HIP's options, which the caller frees; NULL for an option without a meaning here. */
static char *translate(const char *option) {
  static const struct {
    const char *hip, *nvrtc; /* an option that ends in '=' keeps its value */
  } table[] = {
      /* sm_90a is compute capability 9.0 with the instructions that no later one has. */
      {"--offload-arch=sm_90a", "--gpu-architecture=sm_90a"},
      {"--offload-arch=sm_90", "--gpu-architecture=sm_90a"},
      {"--offload-arch=", "--gpu-architecture="},
      {"--gpu-architecture=", "--gpu-architecture="},
      {"-std=", "--std="},
      {"-ffp-contract=off", "--fmad=false"},
      {"-ffp-contract=fast", "--fmad=true"},
      {"-ffast-math", "--use_fast_math"},
      {"-O", 0},
  };
  const char *value = option, *prefix = "";
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    size_t length = strlen(table[i].hip);
    if (strncmp(option, table[i].hip, length)) continue;
    if (!table[i].nvrtc) return 0;
    prefix = table[i].nvrtc;
    value = option + length;
    break;
  }
  size_t size = strlen(prefix) + strlen(value) + 1;
  char *text = malloc(size);
  if (text) snprintf(text, size, "%s%s", prefix, value);
  return text;
}

static int names_target(const char *option) {
  static const char *const forms[] = {"--offload-arch", "--gpu-architecture", "-arch"};
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    if (!strncmp(option, forms[i], strlen(forms[i]))) return 1;
  return 0;
}

/* HIP compiles for the thread's device where no option names a target; NVRTC for an old virtual architecture. */
hiprtcResult hiprtcCompileProgram(hiprtcProgram program, int count, const char *const *options) {
  if (missing()) return HIPRTC_ERROR_INTERNAL_ERROR;
  char **translated = calloc((size_t)count + 1, sizeof *translated);
  if (!translated) return HIPRTC_ERROR_OUT_OF_MEMORY;
  int used = 0, has_target = 0;
  for (int i = 0; i < count; i++) {
    translated[used] = translate(options[i]);
    used += translated[used] != 0;
    has_target |= names_target(options[i]);
  }
  char target[sizeof "--offload-arch=" + NV_MAX_ARCH] = "--offload-arch=";
  if (!has_target && !nv_arch(nv_device(), target + strlen(target))) {
    translated[used] = translate(target);
    used += translated[used] != 0;
  }
  int status = rtc.nvrtcCompileProgram(program, used, (const char *const *)translated);
  for (int i = 0; i < used; i++) free(translated[i]);
  free(translated);
  return (hiprtcResult)status;
}
