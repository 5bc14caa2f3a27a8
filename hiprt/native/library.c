#define _GNU_SOURCE
#include "library.h"

#include <dlfcn.h>
#include <pthread.h>

#include "status.h"

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
  return 0;
}

static void fill_compiler(void *handle, hiprt_compiler_functions *table) { HIPRT_HIPRTC_FUNCTIONS(HIPRT_LOOK_UP) }

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
  }
  pthread_mutex_unlock(&library.lock);
  return status;
}

int hiprt_compiler_open(const char *path) {
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!handle) return hiprt_fail(HIPRT_E_LIBRARY, "dlopen", dlerror());
  pthread_mutex_lock(&library.lock);
  fill_compiler(handle, &hiprt_hiprtc);
  pthread_mutex_unlock(&library.lock);
  return 0;
}
