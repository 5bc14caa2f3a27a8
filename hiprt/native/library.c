#define _GNU_SOURCE
#include "library.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "status.h"

int hiprt_is_forked;
hiprt_functions hiprt_hip;
hiprt_compiler_functions hiprt_hiprtc;
static struct {
  pthread_mutex_t lock;
  void *handle;
} library = {PTHREAD_MUTEX_INITIALIZER, 0};

int hiprt_library_is_open(void) { return library.handle != 0; }

#define HIPRT_LOOK_UP(name, parameters) *(void **)&table->name = dlsym(handle, #name);
#define HIPRT_REQUIRE(name, parameters)                                                                                \
  HIPRT_LOOK_UP(name, parameters)                                                                                      \
  if (!table->name) return hiprt_fail(HIPRT_E_LIBRARY, "dlsym", #name " is missing");

static int fill(void *handle, hiprt_functions *table) {
  HIPRT_HIP_FUNCTIONS(HIPRT_REQUIRE)
  HIPRT_HIP_OPTIONAL(HIPRT_LOOK_UP)
  HIPRT_LOOK_UP(hipKernelNameRef, )
  return 0;
}

static void fill_compiler(void *handle, hiprt_compiler_functions *table) { HIPRT_HIPRTC_FUNCTIONS(HIPRT_LOOK_UP) }

static int refuse(void) { return HIPRT_E_FORKED; }
static int ignore(void) { return 0; }

/* The tables are arrays of function pointers. The calling conventions of Linux and macOS let a function be called with
 * arguments that it does not have. */
typedef int (*function)(void);
static void set(function *table, size_t size, function to) {
  for (size_t i = 0; i < size / sizeof to; i++) table[i] = to;
}

static void in_child(void) {
  hiprt_is_forked = 1;
  set((function *)&hiprt_hip, sizeof hiprt_hip, refuse);
  set((function *)&hiprt_hiprtc, sizeof hiprt_hiprtc, refuse);
  function *const destroy[] = {
      (function *)&hiprt_hip.hipFree,         (function *)&hiprt_hip.hipFreeAsync,
      (function *)&hiprt_hip.hipHostFree,     (function *)&hiprt_hip.hipStreamDestroy,
      (function *)&hiprt_hip.hipEventDestroy, (function *)&hiprt_hip.hipGraphDestroy,
      (function *)&hiprt_hip.hipModuleUnload, (function *)&hiprt_hip.hipGraphExecDestroy,
  };
  for (size_t i = 0; i < sizeof destroy / sizeof *destroy; i++) *destroy[i] = ignore;
}

static pthread_once_t watched = PTHREAD_ONCE_INIT;
static void watch_forks(void) { pthread_atfork(0, 0, in_child); }

int hiprt_library_open(const char *path) {
  pthread_mutex_lock(&library.lock);
  int status = 0;
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  hiprt_functions table;
  if (!handle) {
    status = hiprt_fail(HIPRT_E_LIBRARY, "dlopen", dlerror());
  } else if ((status = fill(handle, &table)) != 0) {
    dlclose(handle);
  } else if (library.handle && library.handle != handle) {
    dlclose(handle);
    status = hiprt_fail(HIPRT_E_LIBRARY, "hiprt_library_open", "another library is open; the choice is final");
  } else {
    hiprt_hip = table;
    library.handle = handle;
    pthread_once(&watched, watch_forks);
  }
  pthread_mutex_unlock(&library.lock);
  return status;
}

int hiprt_version(void) { return HIPRT_VERSION; }

/* Find the file that a function is in. */
static int file_of(void *function, char *out_path, size_t size) {
  Dl_info info;
  if (!dladdr(function, &info) || !info.dli_fname) return 0;
  return (size_t)snprintf(out_path, size, "%s", info.dli_fname) < size;
}

/* Find a HIP library of ours. It lies in a folder of its own beside this library's, or one above. */
static int beside(const char *provider, char *out_path, size_t size) {
  char here[PATH_MAX];
  if (!file_of((void *)hiprt_version, here, sizeof here)) return 0;
  for (int up = 0; up < 3; up++) {
    char *end = strrchr(here, '/');
    if (!end) return 0;
    *end = 0;
    const int length = snprintf(out_path, size, "%s/%s/libhiprt_%s.so", here, provider, provider);
    if (length > 0 && (size_t)length < size && !access(out_path, R_OK)) return 1;
  }
  return 0;
}

int hiprt_open(const char *provider, uint32_t abi) {
  char path[PATH_MAX + 64];
  if (abi != HIPRT_ABI) return hiprt_fail(HIPRT_E_ABI, "hiprt_open", "compile the program with the library's hiprt.h");
  if (!provider) {
    void *mapped = dlsym(RTLD_DEFAULT, "hipGraphLaunch");
    if (!mapped || !file_of(mapped, path, sizeof path))
      return hiprt_fail(HIPRT_E_ARGUMENT, "hiprt_open", "the process has loaded no HIP library: name one");
    return hiprt_library_open(path);
  }
  if (strchr(provider, '/')) return hiprt_library_open(provider);
  if (!strcmp(provider, "rocm")) return hiprt_library_open("libamdhip64.so");
  if (!beside(provider, path, sizeof path))
    return hiprt_fail(HIPRT_E_LIBRARY, "hiprt_open", "there is no such provider beside libhiprt; give a path");
  return hiprt_library_open(path);
}

int hiprt_compiler_open(const char *path) {
  static void *opened; /* under the lock */
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!handle) return hiprt_fail(HIPRT_E_LIBRARY, "dlopen", dlerror());
  pthread_mutex_lock(&library.lock);
  if (handle == opened) {
    dlclose(handle); /* other threads may read the table by now */
  } else {
    fill_compiler(handle, &hiprt_hiprtc);
    opened = handle;
  }
  pthread_mutex_unlock(&library.lock);
  return 0;
}
