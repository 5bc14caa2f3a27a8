"""Attention of many rows by Hopper's matrix instructions: which calls go by them, and what the kernel computes."""

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

import hiprt
from hiprt import graphs, kernels
from hiprt.array import Form
from hiprt.kernels.lang.operands import INT32
from hiprt.kernels.ops.attention.grouped_heads import GroupedHeads
from hiprt.kernels.ops.attention.wgmma_attention import shared_bytes, wgmma_attention
from hiprt.kernels.reference import ops as reference
from hiprt.kernels.tuning.target import make_target, target_of
from hiprt.provider import CPU, NVIDIA

H200 = make_target("sm_90", 132, 32, NVIDIA)
HALF, BFLOAT = np.dtype(np.float16), hiprt.bfloat16
CALL = GroupedHeads(300, False, 32, 8, 32768, 128, 0, False)
prefill_attention, wgmma = (
    import_module(f"hiprt.kernels.ops.attention.{name}") for name in ("prefill_attention", "wgmma_attention")
)
on_hopper = pytest.mark.only(
    "nvidia", reason="the instructions exist on Hopper alone, and the CPU device has none like them"
)


@pytest.fixture
def hopper():
    """Skip where the GPU has not the instructions."""
    if "wgmma" not in target_of(hiprt.current_stream()).features:
        pytest.skip("the GPU is no Hopper")


@pytest.mark.parametrize("dtype", [HALF, BFLOAT])
@pytest.mark.parametrize("width", [64, 128])
def test_hoppers_kernel_takes_usual_widths(dtype, width):
    launch = wgmma_attention(CALL._replace(width=width), dtype, 0.1, H200)
    assert launch.grid == (3, 32, 1)
    assert shared_bytes(dict(zip(launch.kernel.template, launch.template)), H200) <= 226 << 10


def test_other_calls_have_other_kernels():
    assert wgmma_attention(CALL, np.dtype(np.float32), 0.1, H200) is None
    assert wgmma_attention(CALL._replace(width=80), HALF, 0.1, H200) is None
    for target in (make_target("sm_80", 108, 32, NVIDIA), make_target("hiprt-cpu", 2, 32, CPU, is_generic=True)):
        assert wgmma_attention(CALL, HALF, 0.1, target) is None


def test_short_prompts_have_another_kernel():
    """Few rows behind a long text have Hopper's, whose tiles of keys are larger."""
    on = replace(H200, table=replace(H200.table, short_attention=(16, 256)))
    for rows, capacity, is_short in ((16, 256, True), (17, 256, False), (16, 512, False)):
        call = CALL._replace(rows=rows, capacity=capacity)
        assert (wgmma_attention(call, HALF, 0.1, on) is None) == is_short
        q, cache = Form((rows, 32, 128), None, HALF, True, rows * 4096), (8, capacity, 128)
        keys, position = Form(cache, None, HALF, True, capacity * 1024), Form((rows,), None, INT32, True, rows)
        launch = prefill_attention.plan_of(q, keys, keys, position, None, 0.1, on).launch
        assert launch.kernel is (prefill_attention.KERNEL if is_short else wgmma.KERNEL)


def operands(rows, heads, kv_heads, capacity, width, dtype):
    random = np.random.default_rng(rows + capacity)
    shapes = (rows, heads, width), (kv_heads, capacity, width), (kv_heads, capacity, width)
    return [random.normal(size=shape).astype(dtype) for shape in shapes]


def check(got, q, keys, values, position, scale, gate=None):
    exact = reference.prefill_attention(q, keys, values, position, scale, gate)
    scores = abs(scale) * np.abs(reference.double(q)).sum(-1).max() * np.abs(reference.double(keys)).max()
    spacing = 2.0**-10 if q.dtype == HALF else 2.0**-7
    bound = np.abs(reference.double(values)).max() * (spacing + (12 + scores / 4) * 2.0**-24)
    assert np.abs(got.numpy().astype(np.float64) - exact).max() <= bound


@on_hopper
@pytest.mark.parametrize("dtype", [HALF, BFLOAT])
@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize(
    ("rows", "start", "heads", "kv_heads"), [(1, 700, 2, 1), (127, 0, 4, 2), (129, 255, 3, 3), (400, 1, 8, 1)]
)
def test_matches_the_reference(hopper, dtype, width, rows, start, heads, kv_heads):
    """Tiles that jut out beyond the rows and beyond what they see, which is NaN; a result full of NaN."""
    capacity = rows + start + 200
    q, keys, values = operands(rows, heads, kv_heads, capacity, width, dtype)
    position = np.arange(start, start + rows, dtype=np.int32)
    exact = [q, keys.copy(), values.copy()]
    keys[:, start + rows :] = values[:, start + rows :] = np.nan
    out = hiprt.array(np.full(q.shape, np.nan, dtype))
    got = kernels.prefill_attention(*map(hiprt.array, (q, keys, values, position)), scale=width**-0.5, out=out)
    check(got, *exact, position, width**-0.5)


@on_hopper
@pytest.mark.parametrize("dtype", [HALF, BFLOAT])
@pytest.mark.parametrize("scale", [0.5, -0.125])
def test_a_row_has_its_bits_in_any_company(hopper, dtype, scale):
    """Positions in any order, some of them outside; a gate whose rows lie apart; large scores of either sign."""
    q, keys, values = operands(300, 2, 1, 600, 128, dtype)
    random = np.random.default_rng(3)
    position = random.permutation(np.arange(-50, 650, dtype=np.int32))[:300]
    gate = random.normal(size=(300, 301)).astype(dtype)
    cache = [hiprt.array(keys), hiprt.array(values)]

    def attend(rows):
        given = hiprt.array(gate[rows])[:, 45:]
        return kernels.prefill_attention(
            hiprt.array(q[rows]), *cache, hiprt.array(position[rows]), scale=scale, gate=given
        )

    whole = attend(np.arange(300))
    check(whole, q, keys, values, np.minimum(position, 599), scale, gate[:, 45:])
    for rows in ([7], [299, 3, 40], random.permutation(300)[:150]):
        np.testing.assert_array_equal(attend(rows).numpy().view(np.uint16), whole.numpy()[rows].view(np.uint16))


@on_hopper
def test_a_result_may_start_at_any_element(hopper):
    q, keys, values = operands(70, 2, 2, 90, 64, BFLOAT)
    given = [*map(hiprt.array, (q, keys, values, np.arange(70, dtype=np.int32)))]
    exact = kernels.prefill_attention(*given, scale=0.125)
    out = hiprt.zeros(q.size + 1, BFLOAT)[1:].reshape(*q.shape)
    got = kernels.prefill_attention(*given, scale=0.125, out=out)
    np.testing.assert_array_equal(got.numpy().view(np.uint16), exact.numpy().view(np.uint16))


@on_hopper
def test_a_graph_gives_the_bits_of_eager(hopper, stream):
    """The kernel starts before those in front of it end, which write what it reads."""
    q, keys, values = operands(500, 4, 2, 600, 128, BFLOAT)
    position = hiprt.array(np.arange(100, 600, dtype=np.int32))
    given = [*map(hiprt.array, (q, keys, values))]

    def attend():
        first = kernels.prefill_attention(*given, position, scale=0.1)
        return kernels.prefill_attention(kernels.add(first, given[0]), *given[1:], position, scale=0.1)

    exact = attend().numpy().view(np.uint16)
    step = graphs.Step(attend, stream=stream)
    for _ in range(3):
        np.testing.assert_array_equal(step().numpy().view(np.uint16), exact)
    assert step.rungs["replay"] == 2
