"""norm_rope_attention: against numpy and the two ops it stands for, shared positions, positions outside, replays."""

import subprocess
import sys

import numpy as np
import pytest
from helpers.joined_attention import BASE, EPS, operands, run

import hiprt
from hiprt import kernels
from hiprt.graphs import Step
from hiprt.kernels.reference import ops as reference
from hiprt.kernels.tuning.target import force_generic

ULP = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-21}


def check(dtype, hosts, heads, width, gate=None, dims=None):
    opened = None if gate is None else hosts[0][:, gate:]
    exact = reference.norm_rope_attention(*hosts, heads, BASE, width**-0.5, EPS, dims, opened)
    found = run(hosts, heads, width, gate, dims=dims)
    for got, wanted in zip(found, exact, strict=True):
        # Keys and queries are rounded before they meet, and a score is a sum over a head's elements.
        allowed = 4 * ULP[dtype.name] * max(1.0, np.abs(wanted).max(initial=0))
        assert np.abs(got.numpy().astype(np.float64) - wanted).max(initial=0) <= allowed


@pytest.mark.parametrize(
    ("heads", "pairs", "width", "dims"),
    [(4, 2, 64, None), (3, 1, 80, 32), (8, 1, 128, None), (2, 2, 256, 64), (16, 2, 32, 0), (1, 1, 33, 10)],
)
def test_matches_the_reference(branch, dtype, heads, pairs, width, dims):
    check(dtype, operands(dtype, heads, pairs, width, [3, 0, 69, 64], extra=24), heads, width, dims=dims)


@pytest.mark.parametrize(("capacity", "first"), [(70, 0), (70, 67), (700, 300)])
def test_rows_of_one_cache_have_the_bits_that_each_has_alone(branch, dtype, capacity, first):
    """A row sees those in front of it, as if they had come one by one; one behind the capacity is not kept."""
    rows, width = 5, 64
    hosts = operands(dtype, 4, 2, width, range(first, first + rows), capacity, extra=4 * width)
    gate = 8 * width
    keys, values = (cache[0] for cache in hosts[4:])
    got, *together = run((*hosts[:4], keys, values), 4, width, gate)
    given = [hiprt.array(host) for host in hosts[:4]]
    alone = [hiprt.array(cache[None]) for cache in (keys, values)]
    for row in range(min(rows, capacity - first)):
        qkv, position = given[0][row : row + 1], given[3][row : row + 1]
        options = {"heads": 4, "base": BASE, "scale": width**-0.5, "eps": EPS, "gate": qkv[:, gate:]}
        single = kernels.norm_rope_attention(qkv, *given[1:3], position, *alone, **options)
        assert single.numpy().tobytes() == got[row : row + 1].numpy().tobytes()
    for one, other in zip(alone, together, strict=True):
        assert one.numpy().tobytes() == other.numpy().tobytes()


@pytest.mark.parametrize("capacity", [40, 700])
def test_with_a_gate(branch, dtype, capacity):
    hosts = operands(dtype, 8, 2, 64, [5, capacity - 1, capacity // 2, 0], capacity, extra=512)
    check(dtype, hosts, 8, 64, gate=12 * 64)


@pytest.mark.parametrize("absent", [1, 2])
def test_without_a_norm(branch, dtype, absent):
    hosts = list(operands(dtype, 4, 2, 64, [7]))
    hosts[absent] = None
    check(dtype, hosts, 4, 64)


@pytest.mark.parametrize("capacity", [20, 600])
def test_positions_outside(branch, dtype, capacity):
    check(dtype, operands(dtype, 2, 1, 32, [capacity, 4, -1, 100000, -(2**31)], capacity), 2, 32)


@pytest.mark.parametrize("position", [0, 63, 64, 65, 127, 128, 300, 1499])
def test_positions_are_shared_out(dtype, position):
    """The newest position, and one more threadgroup than before has positions."""
    with force_generic():
        check(dtype, operands(dtype, 8, 2, 128, [position], 1500), 8, 128)


def test_the_newest_position_is_not_read_from_the_cache(branch, dtype):
    """What lies there before, and behind it, is no number."""
    hosts = operands(dtype, 8, 1, 64, [300, 9], 512)
    for cache in hosts[4:]:
        cache[0, :, 300:] = cache[1, :, 9:] = np.nan
    got, keys, values = run(hosts, 8, 64)
    assert np.isfinite(got.numpy().astype(np.float32)).all()
    for cache in (keys, values):
        found = cache.numpy().astype(np.float32)
        assert np.isfinite(found[0, :, :301]).all()
        assert np.isnan(found[0, :, 301:]).all()
        assert np.isfinite(found[1, :, :10]).all()
        assert np.isnan(found[1, :, 10:]).all()


def test_graph_equals_eager(branch, dtype):
    """Counters are as they were after each launch, and the order of parts does not depend on who is last."""
    hosts = operands(dtype, 8, 2, 64, [599, 130], 600)
    eager = [part.numpy() for part in run(hosts, 8, 64)]
    given = [hiprt.array(host) for host in hosts]
    step = Step(lambda: kernels.norm_rope_attention(*given, heads=8, base=BASE, scale=0.125, eps=EPS))
    for _ in range(5):
        np.testing.assert_array_equal(step().numpy(), eager[0])
    for got, wanted in zip(given[4:], eager[1:], strict=True):
        np.testing.assert_array_equal(got.numpy(), wanted)


def test_no_rows(branch, dtype):
    assert run(operands(dtype, 2, 1, 32, []), 2, 32)[0].shape == (0, 2, 32)


def test_mistakes_are_named(branch):
    half = np.dtype(np.float16)
    qkv, q_norm, k_norm, position, keys, values = map(hiprt.array, operands(half, 4, 2, 64, [2]))

    def call(*given, **options):
        return kernels.norm_rope_attention(*given, **{"heads": 4, "base": 1.0, "scale": 1.0} | options)

    norms = q_norm, k_norm
    narrow = map(hiprt.array, operands(half, 4, 2, 16, [2]))
    for error, message, wrong in [
        (ValueError, "do not fit qkv", lambda: call(qkv, *norms, position, keys, values, heads=5)),
        (
            ValueError,
            "norm_rope_attention: 3 query heads are not a multiple of 2",
            lambda: call(qkv, *norms, position, keys, values, heads=3),
        ),
        (ValueError, "heads of 16 elements", lambda: call(*narrow)),
        (TypeError, "position is", lambda: call(qkv, *norms, q_norm, keys, values)),
        (ValueError, "gate has shape", lambda: call(qkv, *norms, position, keys, values, gate=qkv)),
    ]:
        with pytest.raises(error, match=message):
            wrong()


SHARED = """
import numpy as np
import hiprt
from hiprt import kernels
from hiprt.kernels.tuning.target import force_generic

random = np.random.default_rng(0)
with force_generic():
    qkv, norm, keys, values, q = (
        hiprt.array(random.normal(size=shape).astype(np.float32))
        for shape in ((1, 12 * 64), (64,), (1, 2, 600, 64), (1, 2, 600, 64), (1, 8, 64))
    )
    position = hiprt.array(np.array([300], np.int32))
    kernels.norm_rope_attention(qkv, norm, norm, position, keys, values, heads=8, base=1e4, scale=0.1)
    kernels.attention(q, keys, values, position, scale=0.1).numpy()
"""


def test_parts_are_ordered_before_they_are_put_together(tmp_path):
    """The last threadgroup reads what others wrote; without the fences around its counter the checker finds races."""
    program = tmp_path / "shared.py"
    program.write_text(SHARED)
    command = [sys.executable, "-m", "hiprt", "check", "--kinds", "race", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, "no findings" in done.stderr + done.stdout) == (0, True), done.stderr[-3000:]
