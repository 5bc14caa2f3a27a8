"""The decode pass: which single ops become the kernels of a decode step, and when they must not."""

from itertools import pairwise

import numpy as np
import pytest
from helpers.traced import calls, traced

import hiprt
from hiprt import kernels
from hiprt.graphs.trace.passes.dead_code import dead_code
from hiprt.graphs.trace.passes.decode import decode

HIDDEN, HEADS, GROUPS, WIDTH, EPS = 128, 4, 2, 32, 1e-6
random = np.random.default_rng(0)


def array(*shape):
    return hiprt.array((random.normal(size=shape) * 0.5).astype(np.float32))


def matrix(rows, columns=HIDDEN):
    return kernels.quantize(array(rows, columns), 64, 4)


def multiply(x, matrix, **options):
    return kernels.quantized_matmul(x, *matrix, **{"group_size": 64, "bits": 4, **options})


def halves(y):
    middle = y.shape[-1] // 2
    return kernels.contiguous(y[..., :middle]), kernels.contiguous(y[..., middle:])


def names(program):
    return [call.split("(")[0] for call in calls(program)]


def changed(function, *arrays, shapeless=False):
    return dead_code(decode(traced(function, *arrays, shapeless=shapeless)))


def close(program, function, *arrays):
    for mine, its in zip(program.run(*arrays), [function(*arrays)]):
        np.testing.assert_allclose(mine.numpy(), its.numpy(), rtol=1e-4, atol=1e-4)


GATE_UP, DOWN, NORM = matrix(2 * HIDDEN), matrix(HIDDEN), array(HIDDEN)


def mlp(x):
    inner = kernels.silu_mul(*halves(multiply(kernels.rms_norm(x, NORM, EPS), GATE_UP)))
    return kernels.add(x, multiply(inner, DOWN))


def test_a_gated_mlp_is_two_kernels():
    x = array(2, HIDDEN)
    program = changed(mlp, x)
    first, second = calls(program)
    assert first.startswith("product(%0,")
    assert "norm=" in first
    assert "swiglu=True" in first
    assert second.endswith("residual=%0)")
    close(program, mlp, x)


@pytest.mark.parametrize("is_turned", [False, True])
def test_a_gate_in_two_ops(is_turned):
    def function(x):
        gate, up = halves(multiply(x, GATE_UP))
        return kernels.multiply(up, kernels.silu(gate)) if is_turned else kernels.multiply(kernels.silu(gate), up)

    x = array(2, HIDDEN)
    program = changed(function, x)
    assert names(program) == ["product"]
    close(program, function, x)


def test_more_rows_than_a_kernel_takes():
    x = array(11, HIDDEN)
    program = changed(mlp, x)
    assert names(program) == ["product", "product"]
    assert program.run(x)[0].numpy().tobytes() == mlp(x).numpy().tobytes()
    shapeless = changed(mlp, array(2, HIDDEN), shapeless=True)
    assert shapeless.run(x)[0].numpy().tobytes() == mlp(x).numpy().tobytes()
    assert shapeless.forms([x])[0].shape == x.shape


def attention(x, position, keys, values):
    """What is read of the caches is read before the queries come."""
    made = multiply(x, QKV)
    edges = np.cumsum([0, HEADS * WIDTH, GROUPS * WIDTH, GROUPS * WIDTH])
    q, k, v = (kernels.contiguous(made[..., a:b]).reshape(len(x), -1, WIDTH) for a, b in pairwise(edges))
    q, k = kernels.rms_norm(q, Q_NORM, EPS), kernels.rms_norm(k, K_NORM, EPS)
    kernels.kv_write(keys, kernels.rope(k, position, base=1e4), position)
    kernels.kv_write(values, v, position)
    return kernels.attention(kernels.rope(q, position, base=1e4), keys, values, position, scale=WIDTH**-0.5)


QKV, Q_NORM, K_NORM = matrix((HEADS + 2 * GROUPS) * WIDTH), array(WIDTH), array(WIDTH)


def caches(rows=2):
    return [hiprt.zeros((rows, GROUPS, 8, WIDTH)) for _ in range(2)]


def test_queries_keys_and_values():
    x, position = array(2, HIDDEN), hiprt.array(np.array([3, 5], np.int32))
    program = changed(attention, x, position, *caches())
    assert names(program) == ["quantized_matmul", "norm_rope_attention"]
    mine, its = caches(), caches()
    one, two = program.run(x, position, *mine)[0], attention(x, position, *its)
    np.testing.assert_allclose(one.numpy(), two.numpy(), rtol=1e-4, atol=1e-5)
    for a, b in zip(mine, its):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-5)


def test_rows_that_go_to_slots_stay_apart_from_attention():
    """The kernel that does both has no slots."""

    def work(x, position, slots, keys, values):
        turns = {"heads": HEADS, "base": 1e4, "eps": EPS}
        query = kernels.norm_rope_write(multiply(x, QKV), Q_NORM, K_NORM, position, keys, values, **turns, slots=slots)
        return kernels.attention(query, keys, values, position, scale=WIDTH**-0.5)

    given = (hiprt.array(np.array(places, np.int32)) for places in ([3, 5], [1, 2]))
    program = changed(work, array(2, HIDDEN), *given, *caches())
    assert names(program) == ["quantized_matmul", "norm_rope_write", "attention"]


def test_what_is_used_elsewhere_stays():
    def norm(x):
        y = kernels.rms_norm(x, NORM, EPS)
        return kernels.add(kernels.exp(y), multiply(y, DOWN))

    def gate(x):
        gate, up = halves(multiply(x, GATE_UP))
        return kernels.add(kernels.silu_mul(gate, up), up)

    def result(x):
        y = multiply(x, DOWN)
        return kernels.add(x, y), y

    def broadcast(x):
        return kernels.add(x[:1], multiply(x, DOWN))

    def swapped(x):
        gate, up = halves(multiply(x, GATE_UP))
        return kernels.silu_mul(up, gate)

    def others(x):
        return multiply(x, kernels.quantize(array(HIDDEN, HIDDEN), 64, 2), bits=2)

    for function in (norm, gate, result, broadcast, swapped, others):
        program = traced(function, array(2, HIDDEN))
        after = names(decode(program))
        assert after == names(program) or (function is norm and after.count("rms_norm") == 1), function.__name__


@pytest.mark.parametrize("where", ["residual", "input", "cache"])
def test_writes_in_between(where):
    """What is written in between is read before, and what is read in between is not written yet."""

    def residual(x, y):
        made = multiply(kernels.contiguous(y), DOWN)
        kernels.add(x, 1.0, out=x)
        return kernels.add(x, made)

    def given(x, y):
        normed = kernels.rms_norm(x, NORM, EPS)
        kernels.add(y, 1.0, out=y)  # may be the memory of x
        return multiply(normed, DOWN)

    def cache(x, y):
        position = hiprt.array(np.array([3, 5], np.int32))
        keys, values = caches()
        made = multiply(x, QKV)
        edges = np.cumsum([0, HEADS * WIDTH, GROUPS * WIDTH, GROUPS * WIDTH])
        q, k, v = (kernels.contiguous(made[..., a:b]).reshape(2, -1, WIDTH) for a, b in pairwise(edges))
        kernels.kv_write(keys, kernels.rope(k, position, base=1e4), position)
        kernels.kv_write(values, v, position)
        seen = kernels.sum(keys)
        kernels.add(keys, 1.0, out=keys)
        q = kernels.rope(q, position, base=1e4)
        return kernels.add(kernels.attention(q, keys, values, position, scale=1.0), seen)

    function = {"residual": residual, "input": given, "cache": cache}[where]
    program = changed(function, array(2, HIDDEN), array(2, HIDDEN))
    x, y = array(2, HIDDEN), array(2, HIDDEN)
    copies = [kernels.copy(each) for each in (x, y)]
    np.testing.assert_allclose(program.run(x, y)[0].numpy(), function(*copies).numpy(), rtol=1e-4, atol=1e-4)
    x, y = array(2, HIDDEN), array(2, HIDDEN)
    one = kernels.copy(x)
    np.testing.assert_allclose(program.run(x, x)[0].numpy(), function(one, one).numpy(), rtol=1e-4, atol=1e-4)
    assert "norm_rope_write" not in names(program)
    assert where != "input" or "rms_norm" in names(program)
