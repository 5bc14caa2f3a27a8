/* A HIP library that stands before another one, fails the calls that it is told to, and counts what is alive.
 *
 * tests/faults/shim.py puts a function for each of hiprt/native/hip_functions.h behind this text. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "hip/hip_runtime_api.h"
#include "hip/hiprtc.h"

#define EXPORT __attribute__((visibility("default")))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long calls, first, last, hits; /* the calls numbered first to last fail; first is 0: none does */
static int numbered = -1;             /* the function whose calls have numbers until the first failure; -1: every one */
static int code, name_of_first = -1;
static int live[16];
static void (*observer)(int);

/* Return the status with which a call fails, or 0. */
static int decide(int index) {
  pthread_mutex_lock(&lock);
  if (numbered < 0 || numbered == index || hits) ++calls;
  const int fails = first && (hits || numbered < 0 || numbered == index) && calls >= first && calls <= last;
  if (fails && !hits++) name_of_first = index;
  pthread_mutex_unlock(&lock);
  if (observer) observer(index);
  return fails ? code : 0;
}

static void count(int kind, int change) { __atomic_add_fetch(&live[kind], change, __ATOMIC_SEQ_CST); }

static void *real(const char *name) {
  static void *library;
  pthread_mutex_lock(&lock);
  if (!library) library = dlopen(REAL, RTLD_NOW | RTLD_LOCAL);
  void *found = library ? dlsym(library, name) : 0;
  pthread_mutex_unlock(&lock);
  if (found) return found;
  fprintf(stderr, "shim: %s\n", dlerror());
  abort();
}

/* Have the n-th call from now on, or the n-th of one function, fail with a status, and those behind it, `burst` in all;
 * 0: every call behind it. */
EXPORT void shim_arm(long n, long burst, int status, int function) {
  pthread_mutex_lock(&lock);
  calls = hits = 0;
  numbered = function;
  name_of_first = -1;
  code = status;
  first = n;
  last = burst ? n + burst - 1 : 1l << 60;
  pthread_mutex_unlock(&lock);
}
EXPORT void shim_disarm(void) {
  pthread_mutex_lock(&lock);
  first = 0;
  pthread_mutex_unlock(&lock);
}
EXPORT long shim_calls(void) { return calls; }
EXPORT long shim_hits(void) { return hits; }
EXPORT int shim_failed(void) { return name_of_first; }
EXPORT int shim_live(int kind) { return __atomic_load_n(&live[kind], __ATOMIC_SEQ_CST); }
EXPORT void shim_observe(void (*function)(int)) { observer = function; }
