// A small library of collectives with NCCL's functions, for the CPU device: ranks are processes of one host, and what they
// put together goes through memory that they share. Its kernels are launched on the stream that it is given. Like NCCL, it
// waits for the graphs that have its kernels before ranks go, and it ends a process that leaves in another order.
#include <fcntl.h>
#include <hip/hip_runtime.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST = 8, CHUNK = 4096, FAILS = 7919, PATIENCE = 20000 };

struct Box {
  unsigned written, taken;
  char bytes[CHUNK];
};

struct Shared {
  unsigned came, waiting, turn;
  char bytes[MOST][CHUNK];
  Box boxes[MOST][MOST];  // [from][to]
};

struct Ranks {
  Shared *shared;
  int rank, ranks, is_ended, error;
  int graphs, is_gone;  // how many captured graphs have its kernels; whether the ranks were given up
};

struct Id {
  char name[128];
};

__device__ int let_others_run() __asm__("sched_yield");

static __device__ unsigned load(const unsigned *at) { return __atomic_load_n(at, __ATOMIC_ACQUIRE); }

// Wait until a word has a value; false: this rank gives up.
static __device__ bool wait_until(Ranks *own, const unsigned *at, unsigned value) {
  while (load(at) != value) {
    if (__atomic_load_n(&own->is_ended, __ATOMIC_ACQUIRE)) return false;
    let_others_run();
  }
  return true;
}

static __device__ bool meet(Ranks *own) {
  Shared *all = own->shared;
  const unsigned turn = load(&all->turn);
  if (__atomic_add_fetch(&all->waiting, 1, __ATOMIC_ACQ_REL) == (unsigned)own->ranks) {
    __atomic_store_n(&all->waiting, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&all->turn, turn + 1, __ATOMIC_RELEASE);
    return true;
  }
  return wait_until(own, &all->turn, turn + 1);
}

static __device__ void copy(char *to, const char *from, size_t n) {
  for (size_t i = 0; i < n; i++) to[i] = from[i];
}

template <typename T>
static __device__ T combined(T a, T b, int op) {
  return op == 0 ? a + b : op == 2 ? (b > a ? b : a) : (b < a ? b : a);
}

template <typename T>
static __device__ void combine(Ranks *own, char *out, size_t n, int op) {
  for (size_t i = 0; i < n / sizeof(T); i++) {
    T sum = ((const T *)own->shared->bytes[0])[i];
    for (int rank = 1; rank < own->ranks; rank++) sum = combined(sum, ((const T *)own->shared->bytes[rank])[i], op);
    ((T *)out)[i] = sum;
  }
}

// kind: what comes of the pieces. The parts of `nbytes` that ranks have are those of the input where it is scattered.
__global__ void exchange(Ranks *own, char kind, const char *in, char *out, size_t nbytes, int type, int op) {
  for (int part = 0; part < (kind == 's' ? own->ranks : 1); part++)
    for (size_t at = 0; at < nbytes; at += CHUNK) {
      const size_t n = nbytes - at < CHUNK ? nbytes - at : CHUNK;
      copy(own->shared->bytes[own->rank], in + part * nbytes + at, n);
      if (!meet(own)) return;
      if (kind == 'g')
        for (int rank = 0; rank < own->ranks; rank++) copy(out + rank * nbytes + at, own->shared->bytes[rank], n);
      else if (kind == 'b')
        copy(out + at, own->shared->bytes[op], n);
      else if (kind == 'r' || part == own->rank)
        type == 2 ? combine<int>(own, out + at, n, op) : combine<float>(own, out + at, n, op);
      if (!meet(own)) return;
    }
}

__global__ void pass(Ranks *own, bool is_sent, char *bytes, size_t nbytes, int peer) {
  Box *box = is_sent ? &own->shared->boxes[own->rank][peer] : &own->shared->boxes[peer][own->rank];
  for (size_t at = 0; at < nbytes; at += CHUNK) {
    const size_t n = nbytes - at < CHUNK ? nbytes - at : CHUNK;
    if (is_sent) {
      if (!wait_until(own, &box->taken, box->written)) return;
      copy(box->bytes, bytes + at, n);
      __atomic_add_fetch(&box->written, 1, __ATOMIC_ACQ_REL);
    } else {
      if (!wait_until(own, &box->written, box->taken + 1)) return;
      copy(bytes + at, box->bytes, n);
      __atomic_add_fetch(&box->taken, 1, __ATOMIC_ACQ_REL);
    }
  }
}

static size_t size_of(int type) {
  static const int sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return (size_t)sizes[type];
}

static int alive;  // how many ranks were not given up yet

// End the process: it does what makes NCCL fail.
static void refuse(const char *why) {
  fprintf(stderr, "collectives: %s\n", why);
  fflush(stderr);
  _exit(70);
}

__attribute__((destructor)) static void end() {
  if (__atomic_load_n(&alive, __ATOMIC_ACQUIRE)) refuse("the process ends, and ranks were not given up");
}

static void forget(void *ranks) {
  Ranks *own = (Ranks *)ranks;
  if (__atomic_load_n(&own->is_gone, __ATOMIC_ACQUIRE)) refuse("a graph goes behind its ranks");
  __atomic_sub_fetch(&own->graphs, 1, __ATOMIC_ACQ_REL);
}

// Let a stream's capture, if it has one, say when its graph goes.
static void retain(Ranks *own, hipStream_t stream) {
  if (__atomic_load_n(&own->is_gone, __ATOMIC_ACQUIRE)) refuse("a collective of ranks that were given up");
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  hipGraph_t graph = 0;
  hipUserObject_t object;
  if (hipStreamGetCaptureInfo_v2(stream, &status, 0, &graph, 0, 0) || status != hipStreamCaptureStatusActive) return;
  __atomic_add_fetch(&own->graphs, 1, __ATOMIC_ACQ_REL);
  if (hipUserObjectCreate(&object, own, forget, 1, hipUserObjectNoDestructorSync) ||
      hipGraphRetainUserObject(graph, object, 1, hipGraphUserObjectMove))
    refuse("a graph takes no user object");
}

static int give_up(Ranks *own) {
  for (int waited = 0; __atomic_load_n(&own->graphs, __ATOMIC_ACQUIRE); waited++) {
    if (waited == PATIENCE) refuse("ranks are given up before the graphs that have them");
    usleep(1000);
  }
  if (__atomic_exchange_n(&own->is_gone, 1, __ATOMIC_ACQ_REL)) refuse("ranks are given up twice");
  __atomic_sub_fetch(&alive, 1, __ATOMIC_ACQ_REL);
  return 0;
}

static int launch(Ranks *own, char kind, const void *in, void *out, size_t count, int type, int op, void *stream) {
  if ((kind == 'r' || kind == 's') && type != 2 && type != 7) return 4;
  retain(own, (hipStream_t)stream);
  hipGetLastError();  // what failed before is not of this launch
  exchange<<<1, 1, 0, (hipStream_t)stream>>>(own, kind, (const char *)in, (char *)out, count * size_of(type), type, op);
  if (count == FAILS) own->error = 3;
  return hipGetLastError() ? 1 : 0;
}

static int message(Ranks *own, bool is_sent, const void *bytes, size_t count, int type, int peer, void *stream) {
  retain(own, (hipStream_t)stream);
  hipGetLastError();
  pass<<<1, 1, 0, (hipStream_t)stream>>>(own, is_sent, (char *)bytes, count * size_of(type), peer);
  return hipGetLastError() ? 1 : 0;
}

extern "C" {
int ncclGetVersion(int *version) { return *version = 22809, 0; }

const char *ncclGetErrorString(int status) { return status == 3 ? "internal error" : "invalid argument"; }

int ncclGetUniqueId(Id *id) {
  static int made;
  snprintf(id->name, sizeof id->name, "/hiprt-test-%d-%d", (int)getpid(), made++);
  return 0;
}

int ncclCommInitRank(Ranks **out, int ranks, Id id, int rank) {
  const int file = shm_open(id.name, O_CREAT | O_RDWR, 0600);
  if (file < 0 || ftruncate(file, sizeof(Shared))) return 2;
  Shared *shared = (Shared *)mmap(0, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  __atomic_add_fetch(&shared->came, 1, __ATOMIC_ACQ_REL);
  while (__atomic_load_n(&shared->came, __ATOMIC_ACQUIRE) != (unsigned)ranks) sched_yield();
  shm_unlink(id.name);
  *out = new Ranks{shared, rank, ranks, 0, 0, 0, 0};
  __atomic_add_fetch(&alive, 1, __ATOMIC_ACQ_REL);
  return 0;
}

int ncclCommDestroy(Ranks *own) { return give_up(own); }

int ncclCommAbort(Ranks *own) {
  __atomic_store_n(&own->is_ended, 1, __ATOMIC_RELEASE);
  return give_up(own);
}

int ncclCommGetAsyncError(Ranks *own, int *error) { return *error = own->error, 0; }

int ncclAllReduce(const void *in, void *out, size_t count, int type, int op, Ranks *own, void *stream) {
  return launch(own, 'r', in, out, count, type, op, stream);
}

int ncclReduceScatter(const void *in, void *out, size_t count, int type, int op, Ranks *own, void *stream) {
  return launch(own, 's', in, out, count, type, op, stream);
}

int ncclAllGather(const void *in, void *out, size_t count, int type, Ranks *own, void *stream) {
  return launch(own, 'g', in, out, count, type, 0, stream);
}

int ncclBroadcast(const void *in, void *out, size_t count, int type, int root, Ranks *own, void *stream) {
  return launch(own, 'b', in, out, count, type, root, stream);
}

int ncclSend(const void *in, size_t count, int type, int peer, Ranks *own, void *stream) {
  return message(own, true, in, count, type, peer, stream);
}

int ncclRecv(void *out, size_t count, int type, int peer, Ranks *own, void *stream) {
  return message(own, false, out, count, type, peer, stream);
}
}
