/* Fails the memory requests that one library makes, of C's functions and through Python's API, and counts what it holds;
   preloaded (LD_PRELOAD) by the tests. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
void __libc_free(void *);

#define FOREVER (1l << 60)
enum { SLOTS = 1 << 20, MOST = 1 << 20, NEAR = 16 };
#define GONE ((void *)1)
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *low, *high;
static int is_armed;
static long calls, first, last, hits, live;
static void *held[SLOTS]; /* what the library holds, by address; GONE where something was */
static uint32_t places[MOST];
static char through_python[MOST];

void mallocs_of(char *from, char *to) { low = from, high = to; }
void mallocs_arm(long n, long burst) {
  pthread_mutex_lock(&lock);
  calls = hits = 0;
  first = n;
  last = burst ? n + burst - 1 : FOREVER;
  is_armed = 1;
  pthread_mutex_unlock(&lock);
}
void mallocs_disarm(void) { first = is_armed = 0; }
long mallocs_calls(void) { return calls; }
long mallocs_hits(void) { return hits; }
long mallocs_live(void) { return live; }
uint32_t mallocs_place(long call) { return call < MOST ? places[call] : 0; }
int mallocs_through_python(long call) { return call < MOST && through_python[call]; }

static int is_asked_by_library(char *caller) { return caller >= low && caller < high; }

/* Count a request of the library; return whether it fails. Those through Python do not fail from then on: Python asks for
   memory to handle an exception, and goes on asking. */
static int fails(char *caller, int is_python) {
  pthread_mutex_lock(&lock);
  const long call = ++calls;
  if (call < MOST) places[call] = (uint32_t)(caller - low), through_python[call] = (char)is_python;
  const int failed = first && call >= first && call <= last && !(is_python && last == FOREVER);
  hits += failed;
  pthread_mutex_unlock(&lock);
  return failed;
}

static uintptr_t slot_of(const void *memory) { return ((uintptr_t)memory >> 4) * 0x9E3779B97F4A7C15u >> 44; }

static void *hold(void *memory) {
  if (!memory) return memory;
  pthread_mutex_lock(&lock);
  uintptr_t at = slot_of(memory);
  while (held[at] && held[at] != GONE) at = (at + 1) % SLOTS;
  held[at] = memory;
  live++;
  pthread_mutex_unlock(&lock);
  return memory;
}

static void let_go(void *memory) {
  if (!memory || !low) return;
  pthread_mutex_lock(&lock);
  for (uintptr_t at = slot_of(memory); held[at]; at = (at + 1) % SLOTS)
    if (held[at] == memory) {
      held[at] = GONE;
      live--;
      break;
    }
  pthread_mutex_unlock(&lock);
}

void *malloc(size_t size) {
  char *caller = __builtin_return_address(0);
  if (!is_asked_by_library(caller)) return __libc_malloc(size);
  return fails(caller, 0) ? NULL : hold(__libc_malloc(size));
}
void *calloc(size_t count, size_t size) {
  char *caller = __builtin_return_address(0);
  if (!is_asked_by_library(caller)) return __libc_calloc(count, size);
  return fails(caller, 0) ? NULL : hold(__libc_calloc(count, size));
}
void *realloc(void *memory, size_t size) {
  char *caller = __builtin_return_address(0);
  if (!is_asked_by_library(caller)) return __libc_realloc(memory, size);
  if (fails(caller, 0)) return NULL;
  let_go(memory);
  return hold(__libc_realloc(memory, size));
}
void free(void *memory) {
  let_go(memory);
  __libc_free(memory);
}

/* Python's allocators (PyMemAllocatorEx), for objects and for memory: requests that the library makes through Python's
   API have one of its frames above all those of Python code and of cffi's. Stacks are looked at while armed only: that
   takes long. */
typedef struct {
  void *context;
  void *(*malloc)(void *, size_t), *(*calloc)(void *, size_t, size_t), *(*realloc)(void *, void *, size_t);
  void (*free)(void *, void *);
} allocator;

static char *eval_low, *eval_high; /* the function that runs Python code */

static char *asker(void) {
  void *frames[NEAR];
  if (!is_armed) return NULL;
  const int count = backtrace(frames, NEAR);
  for (int i = 2; i < count; i++) {
    char *frame = frames[i];
    if (is_asked_by_library(frame)) return frame;
    if (frame >= eval_low && frame < eval_high) return NULL;
  }
  return NULL;
}

static int fails_for_python(void) {
  char *caller = asker();
  return caller && fails(caller, 1);
}

static void *python_malloc(void *context, size_t size) {
  const allocator *own = context;
  return fails_for_python() ? NULL : own->malloc(own->context, size);
}
static void *python_calloc(void *context, size_t count, size_t size) {
  const allocator *own = context;
  return fails_for_python() ? NULL : own->calloc(own->context, count, size);
}
static void *python_realloc(void *context, void *memory, size_t size) {
  const allocator *own = context;
  return fails_for_python() ? NULL : own->realloc(own->context, memory, size);
}
static void python_free(void *context, void *memory) {
  const allocator *own = context;
  own->free(own->context, memory);
}

/* Put functions that fail before those of one of Python's allocators. */
void mallocs_wrap(allocator *python) {
  void *frames[1];
  backtrace(frames, 1); /* The first call loads a library. */
  Dl_info where;
  const ElfW(Sym) *symbol;
  eval_low = dlsym(RTLD_DEFAULT, "_PyEval_EvalFrameDefault");
  if (!eval_low || !dladdr1(eval_low, &where, (void **)&symbol, RTLD_DL_SYMENT)) abort();
  eval_high = eval_low + symbol->st_size;
  allocator *own = __libc_malloc(sizeof *own);
  *own = *python;
  *python = (allocator){own, python_malloc, python_calloc, python_realloc, python_free};
}
