"""norm_rope_write: against numpy, against the ops it stands for, positions outside, columns left alone, mistakes."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import hiprt
from hiprt import kernels
from hiprt.graphs import Step
from hiprt.kernels.reference import ops as reference

CAPACITY, BASE, EPS = 20, 1e4, 1e-6
ULP = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-21}


def operands(dtype, heads, pairs, width, positions, extra=0, seed=0):
    """Return qkv, two norms, the positions and two caches, on the host."""
    random = np.random.default_rng(seed)
    rows = len(positions)
    qkv = random.normal(size=(rows, (heads + 2 * pairs) * width + extra)).astype(dtype)
    norms = random.normal(size=(2, width)).astype(dtype)
    caches = random.normal(size=(2, rows, pairs, CAPACITY, width)).astype(dtype)
    return qkv, *norms, np.array(positions, np.int32), *caches


def run(hosts, heads, dims=None):
    given = [None if host is None else hiprt.array(host) for host in hosts]
    return kernels.norm_rope_write(*given, heads=heads, base=BASE, eps=EPS, dims=dims), given[4], given[5]


def check(dtype, heads, hosts, dims=None):
    exact = reference.norm_rope_write(*hosts, heads, BASE, EPS, dims)
    for got, wanted in zip(run(hosts, heads, dims), exact):
        # The norm's rounding may fall the other way; a pair turns both of its errors.
        allowed = 2 * ULP[dtype.name] * max(1.0, np.abs(wanted).max(initial=0))
        assert np.abs(got.numpy().astype(np.float64) - wanted).max(initial=0) <= allowed


@pytest.mark.parametrize(
    ("heads", "pairs", "width", "dims"), [(4, 2, 64, None), (3, 1, 80, 32), (2, 2, 256, 64), (1, 1, 6, 0)]
)
def test_matches_the_reference(branch, dtype, heads, pairs, width, dims):
    check(dtype, heads, operands(dtype, heads, pairs, width, [3, 0, 19], extra=24), dims)


@pytest.mark.parametrize("absent", [1, 2])
def test_without_a_norm(branch, dtype, absent):
    hosts = list(operands(dtype, 4, 2, 64, [7]))
    hosts[absent] = None
    check(dtype, 4, hosts)


def test_positions_outside_write_nothing(branch, dtype):
    check(dtype, 2, operands(dtype, 2, 1, 32, [CAPACITY, 4, -1, 100000]))


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    heads=st.integers(1, 5),
    pairs=st.integers(1, 3),
    half=st.sampled_from([4, 40, 64]),
    positions=st.lists(st.integers(0, 19), min_size=1, max_size=8),
)
def test_any_shape(branch, dtype, heads, pairs, half, positions):
    check(dtype, heads, operands(dtype, heads, pairs, 2 * half, positions, extra=half))


def test_rows_of_one_sequence_share_a_cache(branch, dtype):
    hosts = operands(dtype, 4, 2, 64, [11, 3, 4, -1, CAPACITY], extra=8)
    *head, keys, values = hosts
    shared = [*head, keys[0], values[0]]
    queries, *caches = (part.numpy() for part in run(shared, 4))
    apart, *each = (part.numpy() for part in run(hosts, 4))
    np.testing.assert_array_equal(queries, apart)
    for got, before, own in zip(caches, shared[4:], each):
        wanted = before.copy()
        for row, place in enumerate((11, 3, 4)):
            wanted[:, place] = own[row, :, place]
        np.testing.assert_array_equal(got, wanted)


def test_equals_the_ops_it_stands_for(branch, dtype):
    hosts = operands(dtype, 4, 2, 64, [11])
    queries, keys, values = (part.numpy() for part in run(hosts, 4))
    qkv, q_norm, k_norm, position, *caches = map(hiprt.array, hosts)
    parts = qkv.reshape(8, 64)
    query, key = kernels.rms_norm(parts[:4], q_norm, EPS), kernels.rms_norm(parts[4:6], k_norm, EPS)
    apart = kernels.rope(query, position, base=BASE)
    kernels.kv_write(caches[0][0], kernels.rope(key, position, base=BASE), position)
    kernels.kv_write(caches[1][0], parts[6:], position)
    np.testing.assert_array_equal(values, caches[1].numpy())
    for one, other in ((queries[0], apart.numpy()), (keys, caches[0].numpy())):
        assert np.abs(one.astype(np.float64) - other.astype(np.float64)).max() <= 8 * ULP[dtype.name]


def test_no_rows(branch, dtype):
    assert run(operands(dtype, 2, 1, 32, []), 2)[0].shape == (0, 2, 32)


def test_graph_equals_eager(branch, dtype):
    hosts = operands(dtype, 4, 2, 64, [2, 9])
    eager = [part.numpy() for part in run(hosts, 4)]
    given = [hiprt.array(host) for host in hosts]
    step = Step(lambda: kernels.norm_rope_write(*given, heads=4, base=BASE, eps=EPS))
    for _ in range(3):
        np.testing.assert_array_equal(step().numpy(), eager[0])
    for got, wanted in zip(given[4:], eager[1:]):
        np.testing.assert_array_equal(got.numpy(), wanted)


def test_mistakes_are_named():
    qkv, q_norm, k_norm, position, keys, values = map(hiprt.array, operands(np.dtype(np.float16), 4, 2, 64, [2]))
    call = kernels.norm_rope_write
    norms = q_norm, k_norm
    for error, message, wrong in [
        (ValueError, "do not fit qkv", lambda: call(qkv, *norms, position, keys, values, heads=5, base=1.0)),
        (ValueError, "not \\[1, Hkv", lambda: call(qkv, *norms, position, keys[0, 0], values[0, 0], heads=4, base=1.0)),
        (ValueError, "even number", lambda: call(qkv, *norms, position, keys, values, heads=4, base=1.0, dims=3)),
        (ValueError, "not positive", lambda: call(qkv, *norms, position, keys, values, heads=4, base=0.0)),
        (ValueError, "q_norm has shape", lambda: call(qkv, qkv, k_norm, position, keys, values, heads=4, base=1.0)),
        (TypeError, "position is", lambda: call(qkv, *norms, q_norm, keys, values, heads=4, base=1.0)),
    ]:
        with pytest.raises(error, match=message):
            wrong()
