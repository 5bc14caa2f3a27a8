/* Fails the memory requests that one library makes, and counts what it holds; preloaded (LD_PRELOAD) by the tests. */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
void __libc_free(void *);

enum { SLOTS = 1 << 20, MOST = 1 << 16 };
#define GONE ((void *)1)
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *low, *high;
static long calls, first, last, hits, live;
static void *held[SLOTS]; /* what the library holds, by address; GONE where something was */
static uint32_t places[MOST];

void mallocs_of(char *from, char *to) { low = from, high = to; }
void mallocs_arm(long n, long burst) {
  pthread_mutex_lock(&lock);
  calls = hits = 0;
  first = n;
  last = burst ? n + burst - 1 : 1l << 60;
  pthread_mutex_unlock(&lock);
}
void mallocs_disarm(void) { first = 0; }
long mallocs_calls(void) { return calls; }
long mallocs_hits(void) { return hits; }
long mallocs_live(void) { return live; }
uint32_t mallocs_place(long call) { return call < MOST ? places[call] : 0; }

static int is_asked_by_library(char *caller) { return caller >= low && caller < high; }

/* Count a request of the library; return whether it fails. */
static int fails(char *caller) {
  pthread_mutex_lock(&lock);
  const long call = ++calls;
  if (call < MOST) places[call] = (uint32_t)(caller - low);
  const int failed = first && call >= first && call <= last;
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
  return fails(caller) ? NULL : hold(__libc_malloc(size));
}
void *calloc(size_t count, size_t size) {
  char *caller = __builtin_return_address(0);
  if (!is_asked_by_library(caller)) return __libc_calloc(count, size);
  return fails(caller) ? NULL : hold(__libc_calloc(count, size));
}
void *realloc(void *memory, size_t size) {
  char *caller = __builtin_return_address(0);
  if (!is_asked_by_library(caller)) return __libc_realloc(memory, size);
  if (fails(caller)) return NULL;
  let_go(memory);
  return hold(__libc_realloc(memory, size));
}
void free(void *memory) {
  let_go(memory);
  __libc_free(memory);
}
