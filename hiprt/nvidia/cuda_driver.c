#define _GNU_SOURCE
#include "cuda_driver.h"

#include <dlfcn.h>
#include <pthread.h>

nv_functions nv;
static struct {
  pthread_once_t once;
  hipError_t status;
  int count;
  pthread_mutex_t lock; /* for contexts */
  CUcontext contexts[NV_MAX_DEVICES];
} driver = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local int thread_device;
static _Thread_local int entered_device = -1;

static int fill(void *library) {
#define NV_LOOK_UP(field, symbol, parameters)                                                                          \
  *(void **)&nv.field = dlsym(library, symbol);                                                                        \
  if (!nv.field) return 0;
  NV_FUNCTIONS(NV_LOOK_UP)
#undef NV_LOOK_UP
#define NV_LOOK_UP(field, symbol, parameters) *(void **)&nv.field = dlsym(library, symbol);
  NV_OPTIONAL(NV_LOOK_UP)
#undef NV_LOOK_UP
  return 1;
}

static void open_driver(void) {
  driver.status = hipErrorNoDevice;
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return;
  if (!fill(library)) {
    driver.status = hipErrorInsufficientDriver;
    return;
  }
  driver.status = (hipError_t)nv.Init(0);
  if (!driver.status) driver.status = (hipError_t)nv.DeviceGetCount(&driver.count);
  if (!driver.status && !driver.count) driver.status = hipErrorNoDevice;
  if (driver.count > NV_MAX_DEVICES) driver.count = NV_MAX_DEVICES;
}

hipError_t nv_open(void) {
  pthread_once(&driver.once, open_driver);
  return driver.status;
}

static hipError_t retain(int device) {
  pthread_mutex_lock(&driver.lock);
  hipError_t status = hipSuccess;
  if (!driver.contexts[device]) {
    CUdevice handle;
    status = (hipError_t)nv.DeviceGet(&handle, device);
    if (!status) status = (hipError_t)nv.DevicePrimaryCtxRetain(driver.contexts + device, handle);
  }
  pthread_mutex_unlock(&driver.lock);
  return status;
}

/* Whether nobody else, such as torch, has chosen another device for the thread meanwhile. */
static int is_current(void) {
  CUcontext context = 0;
  return driver.count < 2 || (!nv.CtxGetCurrent(&context) && context == driver.contexts[thread_device]);
}

hipError_t nv_enter(void) {
  if (entered_device == thread_device && is_current()) return hipSuccess;
  hipError_t status = nv_open();
  if (!status) status = retain(thread_device);
  if (!status) status = (hipError_t)nv.CtxSetCurrent(driver.contexts[thread_device]);
  if (!status) entered_device = thread_device;
  return status;
}

int nv_device(void) { return thread_device; }
CUcontext nv_context(void) { return driver.contexts[thread_device]; }

hipError_t nv_set_device(int device) {
  hipError_t status = nv_open();
  if (status) return status;
  if (device < 0 || device >= driver.count) return nv_done(hipErrorInvalidDevice);
  thread_device = device;
  return nv_enter();
}

/* The thread's last failure that nobody has read yet. A stream that is not ready yet is no failure. */
static _Thread_local hipError_t last_error;

hipError_t nv_done(int status) {
  if (status && status != hipErrorNotReady) last_error = (hipError_t)status;
  return (hipError_t)status;
}

hipError_t hipPeekAtLastError(void) { return last_error; }

hipError_t hipGetLastError(void) {
  hipError_t status = last_error;
  last_error = hipSuccess;
  return status;
}

hipError_t hipInit(unsigned int flags) { return nv_done(flags ? hipErrorInvalidValue : nv_open()); }

hipError_t hipGetDeviceCount(int *count) {
  if (!count) return nv_done(hipErrorInvalidValue);
  hipError_t status = nv_open();
  *count = status ? 0 : driver.count;
  return nv_done(status);
}
