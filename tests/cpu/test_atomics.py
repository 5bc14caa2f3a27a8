"""Atomic functions under contention of threads, blocks and cores."""

import numpy as np
import pytest
from helpers.rtc import C_TYPE, Program

BLOCKS, THREADS = 200, 64
TOTAL = BLOCKS * THREADS


def contend(dtype, body, start, cells=1, prologue=""):
    """Run a body over many threads that update `p` by their index `i`; return what `p` holds then."""
    name = C_TYPE[np.dtype(dtype).name]
    source = f"""{prologue}
extern "C" __global__ void k({name}* p) {{ int i = blockIdx.x * blockDim.x + threadIdx.x; {body} }}"""
    cell = np.full(cells, start, dtype)
    Program(source).run("k", BLOCKS, THREADS, cell)
    return cell


INTEGERS = ["int32", "uint32", "int64", "uint64"]


@pytest.mark.parametrize("dtype", [*INTEGERS, "float32", "float64"])
@pytest.mark.parametrize("suffix", ["", "_system", "_block"])
def test_sums_and_differences(dtype, suffix):
    name = C_TYPE[dtype]
    assert contend(dtype, f"atomicAdd{suffix}(p, ({name})3);", 5)[0] == 5 + 3 * TOTAL
    assert contend(dtype, f"atomicSub{suffix}(p, ({name})2);", 4 * TOTAL)[0] == 2 * TOTAL


@pytest.mark.parametrize("dtype", [*INTEGERS, "float32", "float64"])
def test_extremes(dtype):
    name = C_TYPE[dtype]
    value = f"({name})((i * 7919) % {TOTAL} + 1)"
    assert contend(dtype, f"atomicMax(p, {value});", 0)[0] == TOTAL
    assert contend(dtype, f"atomicMin(p, {value});", 100000)[0] == 1


def test_extremes_of_negative_numbers():
    assert contend("int32", "atomicMin(p, -i);", 5)[0] == 1 - TOTAL
    assert contend("float32", "atomicMin(p, -0.5f * i);", 5)[0] == -0.5 * (TOTAL - 1)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_bits(dtype):
    name = C_TYPE[dtype]
    assert contend(dtype, f"atomicOr(p, ({name})1 << i % 31);", 0)[0] == 2**31 - 1
    assert contend(dtype, f"atomicAnd(p, ~(({name})1 << i % 8));", 2**31 - 1)[0] == 2**31 - 256
    assert contend(dtype, f"if (i < 101) atomicXor(p, ({name})5);", 3)[0] == 3 ^ 5


def test_wrapping_counters():
    assert contend("uint32", "atomicInc(p, 6);", 0)[0] == TOTAL % 7
    assert contend("uint32", "atomicDec(p, 6);", 3)[0] == (3 - TOTAL) % 7
    assert contend("uint32", "if (i == 0) atomicDec(p, 6);", 9)[0] == 6


def test_old_values_are_handed_out_once():
    cell = contend("int32", "int old = atomicAdd(p, 1); p[1 + old] = 1;", 0, cells=TOTAL + 1)
    assert cell[0] == TOTAL
    assert cell[1:].all()


def test_exchange_keeps_every_value():
    """Every value that went in comes out once, except the last."""
    cell = contend("int32", "int old = atomicExch(p, i + 1); atomicAdd(p + 1 + old, 1);", 0, cells=TOTAL + 2)
    assert cell[1:].sum() == TOTAL
    assert cell[1:].max() == 1
    assert cell[1 + cell[0]] == 0


@pytest.mark.parametrize("dtype", [*INTEGERS, "float32", "float64"])
def test_compare_and_swap(dtype):
    name = C_TYPE[dtype]
    body = (
        f"{name} old = *p, seen; do {{ seen = old; old = atomicCAS(p, seen, seen + ({name})2); }} while (old != seen);"
    )
    assert contend(dtype, body, 1)[0] == 1 + 2 * TOTAL


def test_on_shared_memory():
    body = """
  __shared__ int count; __shared__ float sum;
  if (threadIdx.x == 0) { count = 0; sum = 0; }
  __syncthreads();
  atomicAdd(&count, 1); atomicAdd(&sum, 0.5f);
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(p, count + int(sum));"""
    assert contend("int32", body, 0)[0] == BLOCKS * (THREADS + THREADS // 2)


def test_halves_and_pairs():
    source = """#include <hip/hip_fp16.h>
#include <hip/hip_bf16.h>
extern "C" __global__ void k(__half* h, __half2* h2, __hip_bfloat162* b2) {
  atomicAdd(h, __half(1.0f));
  atomicAdd(h2, __half2(1.0f, 0.5f));
  unsafeAtomicAdd(b2, __hip_bfloat162(1.0f, 2.0f));
}"""
    h, h2, b2 = np.zeros(1, np.float16), np.zeros(2, np.float16), np.zeros(2, np.uint16)
    Program(source).run("k", 4, 32, h, h2, b2)
    assert h[0] == 128
    assert h2.tolist() == [128, 64]
    assert (b2.astype(np.uint32) << 16).view(np.float32).tolist() == [128, 256]


def test_clangs_scoped_atomics():
    body = """
  __hip_atomic_fetch_add(p, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
  __hip_atomic_fetch_max(p + 1, i, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
  if (__hip_atomic_load(p, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT) > 0)
    __hip_atomic_store(p + 2, 7, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);"""
    assert contend("int32", body, 0, cells=3).tolist() == [TOTAL, TOTAL - 1, 7]
