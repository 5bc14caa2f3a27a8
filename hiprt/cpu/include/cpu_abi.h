// The interface between a compiled kernel module and the engine that runs it. Both include it, so it has types only and
// includes nothing.
#pragma once

#define HIPRT_CPU_ABI 8
#define HIPRT_CPU_TEXT ".hiprt_text"  // the section of a program for hipcc that holds its text (runtime/device_text.h)

// Every kernel thread runs on a stack that is aligned to its size. The thread's index record lies in the stack's upper half,
// at an offset that differs from stack to stack: records and the frames below them spread over the sets of caches and TLBs.
#define HIPRT_CPU_STACK_SIZE (256ul * 1024)
#define HIPRT_CPU_SHARED 65536  // bytes a block may have
#define HIPRT_CPU_WARP 32u

struct alignas(64) __hiprt_thread {
  unsigned thread[3], block[3], block_dim[3], grid_dim[3];
  unsigned lane;          // in the warp; set for kernels that synchronise
  unsigned step;          // the innermost __hiprt_step: its offset in the stack, 0 if there is none
  unsigned char *shared;  // twice HIPRT_CPU_SHARED: static arrays, then dynamic ones
};

inline __attribute__((always_inline)) __hiprt_thread *__hiprt_thread_at(unsigned long stack_address) {
  const unsigned long base = stack_address & ~(HIPRT_CPU_STACK_SIZE - 1);
  const unsigned long colour = base / HIPRT_CPU_STACK_SIZE * (4096 + 192) & (HIPRT_CPU_STACK_SIZE / 2 - 1);
  return reinterpret_cast<__hiprt_thread *>(base + HIPRT_CPU_STACK_SIZE - sizeof(__hiprt_thread) - colour);
}

// A thread's place in its program, which decides where lanes meet: the calls and the turns of loops that it is in. They are
// marked in the program's text (compile/reconvergence.cpp), and numbered in its order.
struct __hiprt_step {
  const __hiprt_step *outer;
  unsigned place, turn, depth;
  unsigned long long trace;  // of all the steps so far: lanes that are at one place by one way have the same
};

inline __attribute__((always_inline)) unsigned long long __hiprt_trace(const __hiprt_step *outer, unsigned place,
                                                                       unsigned turn) {
  const unsigned long long before = outer ? outer->trace : 0, x = before ^ ((unsigned long long)place << 32 | turn);
  return (x ^ x >> 29) * 0x9e3779b97f4a7c15ull + before;
}

// A __shared__ variable is a thread_local one. clang's emulation of these describes each so, and asks
// __emutls_get_address for its place; the loader gives the offset. (Real thread-local storage serves for g++. With clang it
// would be wrong: clang takes the call that finds it to leave the upper vector registers alone.)
struct __hiprt_shared_variable {
  unsigned long size, align, offset;
  const void *initial;
};

// What the checks know of a word of memory: its last accesses. An access is, from the lowest bit: 32 bits of who did it, 19 of
// where in the code (half the distance from the module's begin), one that it was atomic, 4 of which bytes. The upper byte of
// `write` has a bit for each byte that was written, then one for each that may be touched. A page has such a cell for each word,
// and behind them a second for each, which few accesses need: its `write` is the last atomic one, or one of other bytes; its
// `read` another reader. The upper byte of `read` says when.
struct __hiprt_cell {
  unsigned long long write, read;
};
// These are no macros, because the checks are added behind programs for hipcc that have been preprocessed.
enum : unsigned long long {
  __hiprt_check_more = 1ull << 56,     // there is more to look at than plain accesses in the first cell
  __hiprt_check_readers = 1ull << 57,  // the second cell has another reader
  __hiprt_check_page_size = 4096,
  __hiprt_check_words = __hiprt_check_page_size / 4,
  __hiprt_check_recent = 512,
  __hiprt_check_streaks = 64,
  __hiprt_check_ahead = 16,  // cells: a row of the next block, in blocks of 16 by 16
  __hiprt_check_stack = HIPRT_CPU_STACK_SIZE,
};

struct __hiprt_check_page {
  unsigned long number;
  __hiprt_cell *cells;
};

// Accesses at one place in the code, by threads that follow each other to values that follow each other (check/streaks.h).
struct __hiprt_streak {
  unsigned long place;   // where the accesses return to; 0: there is no streak
  unsigned long origin;  // the address that a thread of the number 0 would have
  unsigned next, end;    // who goes on with it, and who is behind the last one that may
};

// What kernels that are checked look at before they call the engine; each core has its own. Who does an access is a number: 32 times an epoch
// (check/epochs.h), and the lane.
struct __hiprt_check {
  unsigned self, thread;    // who runs, and its number in the block
  unsigned first;           // who thread 0 of the block is at its begin
  unsigned before;          // those below this come before all that runs now
  unsigned block, ordered;  // and so do these: so many from the block's first one on
  unsigned row_end;         // who is behind the row of threads that runs; 0: no streaks are looked for
  unsigned long code;       // where the module begins
  __hiprt_check_page recent[__hiprt_check_recent];
  __hiprt_streak streaks[__hiprt_check_streaks];  // each place has one entry that it may use
};

enum __hiprt_barrier {
  __hiprt_barrier_plain,
  __hiprt_barrier_count,
  __hiprt_barrier_and,
  __hiprt_barrier_or,
  __hiprt_barrier_grid  // waits for all threads of the grid
};
enum __hiprt_warp_op { __hiprt_warp_sync, __hiprt_warp_gather, __hiprt_warp_ballot };

// Functions of the host that a module may need and cannot carry itself: (result, name, parameters).
#define HIPRT_CPU_HOST_UNARY(X) \
  X(sin) X(cos) X(tan) X(asin) X(acos) X(atan) X(sinh) X(cosh) X(tanh) X(asinh) X(acosh) X(atanh) X(exp) X(exp2) \
  X(expm1) X(log) X(log2) X(log10) X(log1p) X(cbrt) X(erf) X(erfc) X(lgamma) X(tgamma)
#define HIPRT_CPU_HOST_BINARY(X) X(pow) X(atan2) X(fmod) X(remainder) X(hypot) X(nextafter)

struct __hiprt_host {
  // Wait for all threads of the block that have not exited. The result depends on the kind.
  unsigned (*barrier)(__hiprt_thread *, __hiprt_barrier kind, unsigned predicate);
  // Wait for the lanes of the warp that are at the same operation (`key`); those in `mask`, unless it is 0, are awaited.
  // gather: the value of lane `lane`, 0 if it takes no part. ballot: the lanes whose value is not 0. sync: the lanes here.
  unsigned long long (*warp)(__hiprt_thread *, unsigned key, __hiprt_warp_op op, unsigned long long value, unsigned lane,
                             unsigned mask);
  // For kernels that are checked (cpu_check.h); called before an access of `size` bytes, and at a fence.
  // The first is how far from the thread pointer the address of the core's __hiprt_check is.
  long check;
  void (*access)(const volatile void *, unsigned long size, unsigned kind, const void *pc);
  void (*fence)(int of_device);
  // Called before an access that goes on with no streak, while they are looked for. Returns whether one begins with it.
  int (*streak)(unsigned long address, unsigned long size, unsigned kind, unsigned long pc);
  // This ends the kernel with an error.
  void (*fail)(const char *kind, const char *text, const char *file, unsigned line, const char *function);
  int (*print)(const char *format, __builtin_va_list arguments);
  unsigned long long (*clock)();
  void *(*copy)(void *, const void *, unsigned long);
  void *(*move)(void *, const void *, unsigned long);
  void *(*fill)(void *, int, unsigned long);
  int (*compare)(const void *, const void *, unsigned long);
  void *(*allocate)(unsigned long);
  void (*release)(void *);
  float (*fma_float)(float, float, float);
  double (*fma_double)(double, double, double);
#define HIPRT_CPU_ENTRY(name) double (*name)(double);
  HIPRT_CPU_HOST_UNARY(HIPRT_CPU_ENTRY)
#undef HIPRT_CPU_ENTRY
#define HIPRT_CPU_ENTRY(name) double (*name)(double, double);
  HIPRT_CPU_HOST_BINARY(HIPRT_CPU_ENTRY)
#undef HIPRT_CPU_ENTRY
};

struct __hiprt_param {
  unsigned offset, size;
};

// A kernel, or a variable that was asked for by a name expression, which has no run function.
struct __hiprt_entry {
  const char *expression;    // as given to hiprtcAddNameExpression, else null
  const void *(*address)();  // of the function or variable itself; its symbol is the lowered name
  void (*run)(const unsigned char *arguments, unsigned count);  // `count` threads along x, starting at the current one
  const __hiprt_param *params;
  unsigned param_count, kernarg_size, max_threads;
  unsigned long size;  // of a variable
};

struct __hiprt_module_info {
  unsigned abi, count;
  const __hiprt_entry *entries;
  const __hiprt_host **host;  // filled in by the loader
  const __hiprt_entry *const *listed, *const *listed_end;  // of programs for hipcc: the entries that kernels list themselves
};
