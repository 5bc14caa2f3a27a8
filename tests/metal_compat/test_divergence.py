"""Lanes that part and meet again behave as on a GPU on the CPU device, which runs each lane by itself."""

import os
import shutil

import numpy as np
import pytest
from helpers.child import child
from helpers.divergence import CASES, results, wrong
from helpers.rtc import Program, build

pytestmark = pytest.mark.only("cpu", reason="a GPU's lanes meet as its hardware has it")


@pytest.mark.every(2)
@pytest.mark.parametrize("name", CASES)
def test_lanes_meet_as_on_a_gpu(name):
    got, expected = results(name)
    assert got == expected


@pytest.mark.wide(turn=1)
def test_by_another_compiler(tmp_path):
    if not shutil.which("g++"):
        pytest.skip("no g++ here")
    assert child(wrong, HIPRT_CPU_COMPILER="g++", HIPRT_CACHE_DIR=os.fspath(tmp_path)) == []


HIP = """
__device__ int sum(int v) { for (int d = 16; d; d /= 2) v += __shfl_xor(v, d); return v; }
__device__ int here(int v);
struct Tile { __device__ int count() const { return __popcll(__ballot(1)); } };
#define VOTES(n) \\
  while (__any(r % 100 < n)) ++r;
extern "C" __global__ void k(int* out) {
  int lane = threadIdx.x, r = 0;
  Tile tiles[2];
  if (lane % 2) r = here(1); else r = here(2);
  for (int k = 0; k < 2; ++k) { if (lane < 8) continue; r += 100 * tiles[k].count(); }
  const int some[] = {1, 2};
  for (int k : some) if (lane % 4 == k) r += 10000 * tiles->count();
  VOTES(20)
  out[lane] = r + 1000000 * __popcll(__ballot(1));
}
__device__ int here(int v) { return v * __popcll(__ballot(1)); }
"""


def test_plain_hip():
    out = np.zeros(32, np.int32)
    Program(HIP).run("k", 1, 32, out)
    lanes = np.arange(32)
    exact = np.where(lanes % 2, 16, 32) + np.where(lanes < 8, 0, 4800) + np.where(np.isin(lanes % 4, (1, 2)), 80000, 0)
    votes = np.maximum(0, 20 - exact % 100).max()  # all turn while one has to
    assert out.tolist() == (exact + votes + 32_000_000).tolist()


def test_a_mask_gathers_lanes_that_came_by_different_ways():
    source = """
__device__ int swap(int v) { return __shfl_xor_sync(0xffffffffull, v, 1); }
extern "C" __global__ void k(int* out) { int i = threadIdx.x; if (i % 2) out[i] = swap(i); else out[i] = swap(i); }
"""
    out = np.zeros(32, np.int32)
    Program(source).run("k", 1, 32, out)
    assert out.tolist() == (np.arange(32) ^ 1).tolist()


def test_a_program_that_the_steps_do_not_suit_compiles_and_says_so():
    """The body has a call that returns a place to write to."""
    source = """
__device__ int& slot(int* p) { __syncwarp(); return p[threadIdx.x]; }
extern "C" __global__ void k(int* out) { slot(out) = 7; }
"""
    made = build(source)
    assert made.status == 0, made.log
    assert "lanes are told apart by the operation they are at only" in made.log
    out = np.zeros(32, np.int32)
    Program(source).run("k", 1, 32, out)
    assert set(out.tolist()) == {7}
