"""Blocks of a checked kernel on several cores: defects between them are found, correct kernels left alone.

Blocks of code that cannot tell each other anything are on several cores from the first run on.
"""

import json
from collections import defaultdict

HEAD = """
#define T int(threadIdx.x)
#define B int(blockIdx.x)
#define I (B * 256 + T)
// The first block goes on when another core has begun one, so that not all are one core's. Without `meet` none does
// anything; with 2 they do not wait.
__device__ void wait_for_others(int *met) {
  if (T) return;
  atomicAdd(met, 1);
  const long long begin = wall_clock64(), limit = 20000000000ll;
  while (!B && *(volatile int *)met < 2 && wall_clock64() - begin < limit) {}
  if (!B) atomicAdd(met + 1, *(volatile int *)met);
}
#define KERNEL(name)                                                             \\
  __device__ void name##_body(int *, int *, int *);                              \\
  extern "C" __global__ void name(int *x, int *y, int *c, int *met, int meet) {  \\
    if (!meet) return;                                                           \\
    if (meet == 1) wait_for_others(met);                                         \\
    name##_body(x, y, c);                                                        \\
  }                                                                              \\
  __device__ __forceinline__ void name##_body(int *x, int *y, int *c)
"""

# Each works on 65,536 numbers, as many that were never written, and 64 zeros, in 256 blocks of 256 threads. It is given
# with its kind and what the accesses of a finding are.
DEFECTS = {
    "two_blocks_write": ("race", {"4 bytes are written"}, "if (T < 4) y[B / 128 * 4 + T % 4] = B;"),
    "read_of_what_another_wrote": (
        "race",
        {"4 bytes are read", "4 bytes are written"},
        "x[I] = 1; c[0] += x[65535 - I];",
    ),
    "first_reads_what_all_write": (
        "race",
        {"4 bytes are read", "4 bytes are written"},
        "if (!B) y[I] = x[256 + T]; else x[I] = 1;",
    ),
    "plain_beside_atomic": (
        "race",
        {"4 bytes are atomically written", "4 bytes are written"},
        "if (T == 9) { if (B == 200) c[9] = 1; else atomicAdd(c + 9, 1); }",
    ),
    # It is no read of what was never written.
    "read_of_what_another_writes": (
        "race",
        {"4 bytes are read", "4 bytes are written"},
        "if (!T && B == 255) atomicAdd(c, 1); if (B) y[I] = 1; "
        "else { while (!*(volatile int *)c) {} y[I] = y[65280 + T]; }",
    ),
    "bytes_of_a_word": (
        "race",
        {"4 bytes are read", "1 byte is written"},
        "if (!B) y[I] = x[256 + T]; else ((char *)x)[4 * I + 1] = 1;",
    ),
    "beyond": ("memory", {"4 bytes are written"}, "x[I + 1] = 1;"),
    "never_written": ("init", {"4 bytes are read"}, "if (B > 100) x[I] = y[I];"),
    "no_barrier": (
        "race",
        {"4 bytes are read", "4 bytes are written"},
        "__shared__ int s[256]; s[T] = 0; __syncthreads(); s[T] = T; x[I] = s[255 - T];",
    ),
    "not_all_at_a_barrier": ("barrier", {"a barrier is waited at"}, "if (T < 100 && B == 77) return; __syncthreads();"),
}

CORRECT = {
    "add": "x[I] += 1; y[I] = x[I];",
    "all_read_the_same": "int s = 0; for (int i = 0; i < 64; ++i) s += x[i + T]; y[I] = s;",
    "histogram": "atomicAdd(c + x[I] % 64, 1);",
    "own_bytes": "((char *)y)[I] = 1;",
    "shared": "__shared__ int s[256]; s[T] = x[I]; __syncthreads(); y[I] = s[255 - T]; __syncthreads(); s[T] = 1;",
    "warps": "int v = x[I]; for (int d = 16; d; d /= 2) v += __shfl_xor(v, d); if (T % 32 == 0) y[I] = v;",
    "many_barriers": "__shared__ int s[256]; "
    "for (int i = 0; i < 40; ++i) { s[(T + i) % 256] = i; __syncthreads(); } x[I] = s[T];",
    "last_block_adds": "__shared__ int n; y[I] = 1; __threadfence(); __syncthreads(); "
    "if (!T) n = atomicAdd(c, 1); __syncthreads(); if (n == 255) for (int i = 0; i < 256; ++i) x[T] += y[256 * i + T];",
    "chain": "if (!T && B < 64) { while (B && !*(volatile int *)(c + B - 1)) {} "
    "x[B] = B ? x[B - 1] + 1 : 0; __threadfence(); atomicAdd(c + B, 1); }",
    "memory_of_its_own": "int *m = new int[4]; m[T % 4] = T; y[I] = m[T % 4]; delete[] m;",
    "released": "if (T == 9) __hip_atomic_store(c + 9, B, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);",
}
# By their code blocks of these may tell each other something: they share cores behind a run in which they do not.
TALKING = ["last_block_adds", "chain", "memory_of_its_own", "released"]
# Races of blocks that tell each other something, in their first run: one core knows all of it.
AT_ONCE = {
    "fence": "if (!T) { y[0] = B; __threadfence(); }",
    "compiler_s_fence": "if (!T) { y[0] = B; __atomic_thread_fence(__ATOMIC_RELEASE); }",
    "release": "if (!T) { y[0] = B; __hip_atomic_store(c + B % 64, 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT); }",
    "allocation": "if (!T) { y[0] = B; delete new int; }",
}

RUN = """
import json, os, sys
import numpy as np
from rocm.bindings.util import paths
paths.get_library_path = lambda *_, **__: os.fsencode(sys.argv[1])
from rocm.bindings import hip
from helpers.hip_calls import KIND, ok
from helpers.rtc import Program

N = 1 << 16
source, runs = json.load(open(sys.argv[2]))
program = Program(source, name="cores.hip")
for name, meets in runs.items():
    x, y, c, met = ok(hip.hipMalloc(4 * N)), ok(hip.hipMalloc(4 * N)), ok(hip.hipMalloc(256)), ok(hip.hipMalloc(8))
    ok(hip.hipMemcpy(x, np.arange(N, dtype=np.int32), 4 * N, KIND.hipMemcpyHostToDevice))
    ok(hip.hipMemset(c, 0, 256))
    ok(hip.hipMemset(met, 0, 8))
    for meet in meets:
        values = [np.array([int(p)], np.uint64) for p in (x, y, c, met)] + [np.array([meet], np.int32)]
        cells = np.array([v.ctypes.data for v in values], np.uint64)
        ok(hip.hipModuleLaunchKernel(program.function(name), N // 256, 1, 1, 256, 1, 1, 0, None, cells, None))
        ok(hip.hipDeviceSynchronize())
    counts = np.zeros(2, np.int32)
    ok(hip.hipMemcpy(counts, met, 8, KIND.hipMemcpyDeviceToHost))
    assert counts[1] >= 2 or 2 in meets, f"{name}: one core had all blocks"
    for p in (x, y, c, met):
        ok(hip.hipFree(p))
"""


def test_blocks_of_several_cores(check, tmp_path):
    bodies = {name: body for name, (*_, body) in DEFECTS.items()} | CORRECT | AT_ONCE
    runs = {name: [2] if name in AT_ONCE else [0, 1] if name in TALKING else [1] for name in bodies}
    path = tmp_path / "program.json"
    path.write_text(
        json.dumps([HEAD + "".join(f"KERNEL({name}) {{ {body} }}\n" for name, body in bodies.items()), runs])
    )
    found = defaultdict(list)
    for finding in check(RUN, path, HIPRT_CPU_THREADS="4"):
        found[finding["involved"][0]["kernel"]].append(finding)
    assert set(found) == {*DEFECTS, *AT_ONCE}
    assert all(finding["kind"] == "race" for name in AT_ONCE for finding in found[name])
    for name, (kind, what, _) in DEFECTS.items():
        assert {f["kind"] for f in found[name]} == {kind}, name
        assert what in [{i["what"] for i in f["involved"]} for f in found[name]], name
        for finding in found[name]:
            assert all(i["line"].startswith("cores.hip:") and "block" in i and "lane" in i for i in finding["involved"])
            assert kind == "barrier" or "buffer of" in finding["buffer"] or "shared variable" in finding["buffer"]
    # Of reads of what nobody wrote the first block's is told of.
    assert found["never_written"][0]["involved"][0]["block"] == [101, 0, 0]
