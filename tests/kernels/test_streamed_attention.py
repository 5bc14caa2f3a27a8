"""Attention whose rows come through threadgroup memory: where it is taken, and what it computes."""

from contextlib import nullcontext
from importlib import import_module

import numpy as np
import pytest
from helpers.joined_attention import BASE, EPS, operands, run

import hiprt
from hiprt import graphs, kernels
from hiprt.kernels import hip_kernel
from hiprt.kernels.ops.attention.grouped_heads import GroupedHeads
from hiprt.kernels.reference import ops as reference
from hiprt.kernels.tuning.streams import (
    MEASURED,
    MEASURED_FEW,
    MEASURED_MANY,
    Streams,
    resident_of,
    shared_bytes,
    streams_of,
)
from hiprt.kernels.tuning.target import force_generic, make_target, target_of
from hiprt.objects import Planned
from hiprt.provider import CPU, NVIDIA

H200 = make_target("sm_90", 132, 32, NVIDIA)
HALF, BFLOAT, SINGLE = np.dtype(np.float16), hiprt.bfloat16, np.dtype(np.float32)
# It leaves dynamic threadgroup memory on each processor, or core, full of what is no number: all bits are set.
LEAVE_NO_NUMBERS = hip_kernel(
    """
    __global__ void leave_no_numbers(unsigned* out) {
      extern __shared__ unsigned held[];
      for (unsigned i = threadIdx.x; i < WORDS; i += blockDim.x) held[i] = 0xffffffffu;
      __syncthreads();
      if (threadIdx.x == 0) out[blockIdx.x] = held[blockIdx.x];
    }
    """,
    "leave_no_numbers",
    {"out": "write uint32"},
    constants={"WORDS": 12288},
)
QWEN = GroupedHeads(1, True, 32, 8, 8192, 128, 0, False)
modules = [import_module(f"hiprt.kernels.ops.attention.{name}") for name in ("attention", "norm_rope_attention")]


@pytest.mark.parametrize(
    ("call", "heads", "splits"),
    [
        (QWEN, 4, 16),
        (QWEN._replace(capacity=300), 4, 2),
        (QWEN._replace(heads=16, capacity=350), 2, 3),
        (QWEN._replace(heads=16, capacity=350, rows=4), 2, 3),
        (QWEN._replace(heads=16, capacity=250, rows=8), 2, 2),
        (QWEN._replace(heads=16, capacity=2304), 2, 12),
        (QWEN._replace(capacity=0), 4, 1),
        (QWEN._replace(heads=64), 8, 16),
        (QWEN._replace(heads=96), 6, 8),
        (QWEN._replace(rows=8), 4, 2),
        (QWEN._replace(rows=8, own_caches=False), 4, 16),
        (QWEN._replace(rows=99), 4, 1),
        (QWEN._replace(heads=16, kv_heads=2, width=256), 8, 32),
        (QWEN._replace(heads=16, kv_heads=1, width=64), 8, 64),
    ],
)
def test_threadgroups_fill_the_device(call, heads, splits):
    found = streams_of(call, BFLOAT, H200)
    few = MEASURED_MANY if call.rows == 8 else MEASURED_FEW
    measured = few if call.repeat <= 2 and call.capacity <= 2048 else MEASURED
    assert found == (heads, splits, *measured[call.width])


@pytest.mark.parametrize("measured", [MEASURED, MEASURED_FEW, MEASURED_MANY])
@pytest.mark.parametrize("width", MEASURED)
def test_threadgroups_fit_a_processor(measured, width):
    simdgroups, stages = measured[width]
    template = {"SIMDGROUPS": simdgroups, "STAGES": stages, "WIDTH": width}
    made = 10 * (width + 8) * 2 + simdgroups * stages * 16 + 16
    assert shared_bytes(template, H200) + made <= 226 << 10
    assert resident_of(template) * simdgroups <= 16


def test_other_calls_have_other_kernels():
    assert streams_of(QWEN, HALF, H200) is not None
    assert streams_of(QWEN, SINGLE, H200) is None
    for width in (32, 80, 96):
        assert streams_of(QWEN._replace(width=width), HALF, H200) is None
    assert streams_of(QWEN._replace(heads=0), HALF, H200) is None
    for target in (make_target("sm_80", 108, 32, NVIDIA), make_target("hiprt-cpu", 2, 32, CPU, is_generic=True)):
        assert streams_of(QWEN, HALF, target) is None


@pytest.fixture
def force(monkeypatch):
    """Return a function that has calls share out positions so, with the lanes of the GPU branch on the CPU device."""
    stream = hiprt.current_stream()
    if not target_of(stream).takes_loops and "streams" not in target_of(stream).features:
        pytest.skip("the kernel was not measured on this GPU")

    def forced(splits, simdgroups=2, stages=2):
        def streams(call, dtype, _):
            heads = next(size for size in range(8, 0, -1) if call.repeat % size == 0)
            return Streams(heads, splits, simdgroups, stages) if dtype.itemsize == 2 else None

        for module in modules:
            monkeypatch.setattr(module, "streams_of", streams)
            monkeypatch.setattr(module, "plan_of", Planned(module.plan_of.function))

    with force_generic() if target_of(stream).takes_loops else nullcontext():
        yield forced


@pytest.mark.parametrize(
    ("dtype", "heads", "pairs", "width", "dims", "splits", "simdgroups", "stages"),
    [
        (BFLOAT, 4, 1, 128, 128, 3, 2, 2),
        (HALF, 8, 1, 64, 26, 1, 4, 3),
        (BFLOAT, 24, 2, 64, 64, 2, 3, 1),
        pytest.param(BFLOAT, 2, 2, 256, 64, 2, 1, 1, marks=pytest.mark.wide),
        pytest.param(HALF, 2, 2, 256, 256, 2, 2, 1, marks=pytest.mark.wide),
        (HALF, 20, 1, 128, 128, 4, 6, 1),
        pytest.param(BFLOAT, 12, 2, 64, 2, 4, 8, 1, marks=pytest.mark.wide),
    ],
)
def test_matches_the_reference(force, dtype, heads, pairs, width, dims, splits, simdgroups, stages):
    """The first and the last place of a run, positions in front of the caches and behind them; NaN is not read.

    Nor is what threadgroup memory holds from before. Of some heads only the first elements are turned, and of some
    calls several threadgroups read the same keys.
    """
    force(splits, simdgroups, stages)
    LEAVE_NO_NUMBERS(hiprt.empty(512, np.uint32), threads=512 * 256, block=256, shared=12288 * 4)
    hosts = operands(dtype, heads, pairs, width, [0, 15, 16, 130, 199, 200, -1], 200, extra=heads * width)
    exact = reference.norm_rope_attention(
        *hosts, heads, BASE, width**-0.5, EPS, dims, hosts[0][:, (heads + 2 * pairs) * width :]
    )
    for row, position in enumerate(hosts[3]):
        if 0 <= position < 200:
            hosts[4][row, :, position:] = hosts[5][row, :, position:] = np.nan
    found = run(hosts, heads, width, gate=(heads + 2 * pairs) * width, dims=dims)
    ulp = 2.0 ** (-10 if dtype == HALF else -7)
    assert np.abs(found[0].numpy().astype(np.float64) - exact[0]).max() <= 2 * ulp * np.abs(exact[0]).max()
    for got, wanted in zip(found[1:], exact[1:]):
        got = got.numpy().astype(np.float64)
        written = np.isfinite(got)
        assert np.abs(got - wanted)[written].max() <= 4 * ulp * np.abs(wanted).max()
        assert [int(row.sum()) // (pairs * width) for row in written] == [1, 16, 17, 131, 200, 200, 200]


@pytest.mark.parametrize(
    ("dtype", "heads", "width"), [(HALF, 10, 64), (HALF, 24, 64), pytest.param(BFLOAT, 10, 128, marks=pytest.mark.wide)]
)
def test_attention_matches_the_reference(force, dtype, heads, width, normal, close):
    force(3)
    pairs, capacity = 2, 150
    positions = np.array([0, 40, 149, 1000, -5], np.int32)
    q, (keys, values) = normal((5, heads, width), dtype, 1), normal((2, 5, pairs, capacity, width), dtype, 2)
    keys[1, :, 41:] = values[1, :, 41:] = np.nan
    got = kernels.attention(*map(hiprt.array, (q, keys, values, positions)), scale=width**-0.5)
    given = zip(q, keys, values, positions)
    exact = np.stack([reference.attention(*one, width**-0.5) for one in given])
    close(got, exact, magnitude=np.full(exact.shape, 4.0), steps=64)


def test_a_negative_scale_and_one_position_that_wins(force):
    force(2)
    keys = np.zeros((1, 100, 64), BFLOAT)
    keys[0, 70, 0] = -200
    q = np.zeros((2, 64), BFLOAT)
    q[0, 0] = 1
    values = np.random.default_rng(1).normal(size=(1, 100, 64)).astype(BFLOAT)
    got = kernels.attention(*map(hiprt.array, (q, keys, values, np.array([99], np.int32))), scale=-1.0).numpy()
    np.testing.assert_array_equal(got[0], values[0, 70])


def test_rows_of_one_cache_have_the_bits_that_each_has_alone(force):
    force(3)
    width, first, capacity = 64, 93, 100
    hosts = operands(BFLOAT, 4, 2, width, range(first, first + 4), capacity)
    keys, values = (cache[0] for cache in hosts[4:])
    together = run((*hosts[:4], keys, values), 4, width)
    alone = [keys[None], values[None]]
    for row in range(4):
        qkv, position = hosts[0][row : row + 1], hosts[3][row : row + 1]
        single, *alone = (part.numpy() for part in run((qkv, *hosts[1:3], position, *alone), 4, width))
        assert single.tobytes() == together[0][row : row + 1].numpy().tobytes()
    for one, other in zip(alone, together[1:]):
        assert one.tobytes() == other.numpy().tobytes()


@pytest.mark.parametrize("op", ["attention", "norm_rope_attention"])
def test_a_graph_gives_the_bits_of_eager(force, stream, op):
    """Counters are as they were after each launch, and the order of parts does not depend on who is last."""
    force(4)
    qkv, *norms, position, keys, values = map(hiprt.array, operands(BFLOAT, 4, 1, 64, [599, 130], 600))
    q = kernels.contiguous(qkv[:, :256]).reshape(2, 4, 64)

    def call():
        if op == "norm_rope_attention":
            options = {"heads": 4, "base": BASE, "scale": 0.125}
            return kernels.norm_rope_attention(qkv, *norms, position, keys, values, **options)
        return kernels.attention(q, keys, values, position, scale=0.125)

    exact = call().numpy().view(np.uint16)
    step = graphs.Step(call, stream=stream)
    for _ in range(3):
        np.testing.assert_array_equal(step().numpy().view(np.uint16), exact)
    assert step.rungs["replay"] == 2
