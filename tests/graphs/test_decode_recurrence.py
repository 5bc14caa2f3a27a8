"""Steps of gated-delta layers in the decode pass: what becomes one kernel, and what differs and must not."""

from itertools import pairwise

import numpy as np
import pytest
from helpers.delta_rule import delta_step
from helpers.traced import calls, traced

import hiprt
from hiprt import kernels
from hiprt.graphs.trace.passes.dead_code import dead_code
from hiprt.graphs.trace.passes.decode import decode

HIDDEN, KEYS, VALUES, WIDTH, TAPS, ROWS, EPS = 64, 2, 4, 32, 4, 2, 1e-6
CHANNELS = 2 * KEYS * WIDTH + VALUES * WIDTH
random = np.random.default_rng(2)


def array(*shape):
    return hiprt.array((random.normal(size=shape) * 0.3).astype(np.float32))


def matrix(rows):
    return kernels.quantize(array(rows, HIDDEN), 32, 4)


QKV, Z, B, A = (matrix(rows) for rows in (CHANNELS, VALUES * WIDTH, VALUES, VALUES))
CONV, BIAS, A_LOG, DT_BIAS, NORM = array(CHANNELS, TAPS), array(CHANNELS), array(VALUES), array(VALUES), array(WIDTH)


def states():
    random = np.random.default_rng(3)
    conv, delta = (ROWS, TAPS - 1, CHANNELS), (ROWS, VALUES, WIDTH, WIDTH)
    return [hiprt.array(random.normal(size=shape).astype(np.float32)) for shape in (conv, delta)]


def step(x, conv, delta, change=None, rule=kernels.gated_delta):
    """A step as mlx-lm writes it, with one thing changed."""
    n = x.shape[0]
    qkv, z, b, a = (kernels.quantized_matmul(x, *each, True, 32, 4) for each in (QKV, Z, B, A))
    bias = BIAS if change == "a bias" else None
    mixed = kernels.conv_step(qkv.reshape(n, 1, CHANNELS), conv, CONV, bias, silu=change != "no silu")
    keys = KEYS * WIDTH
    q, k, v = (kernels.contiguous(mixed[..., i:j]) for i, j in ((0, keys), (keys, 2 * keys), (2 * keys, CHANNELS)))
    if change == "keys are queries":
        q, k = k, q
    q, k, v = q.reshape(n, 1, KEYS, WIDTH), k.reshape(n, 1, KEYS, WIDTH), v.reshape(n, 1, VALUES, WIDTH)
    scale = 0.5 if change == "another scale" else WIDTH**-0.5
    q = kernels.multiply(kernels.rms_norm(q, None, 1e-5 if change == "another epsilon" else EPS), 1 / WIDTH)
    k = kernels.multiply(kernels.rms_norm(k, None, EPS), scale)
    rate = kernels.exp(A_LOG)
    rate = rate if change == "a rate that grows" else kernels.negative(rate)
    total = kernels.subtract(a, DT_BIAS) if change == "a difference" else kernels.add(a, DT_BIAS)
    soft = kernels.multiply(rate, kernels.softplus(total))
    kept = kernels.exp(kernels.minimum(soft, 0.0) if change == "a rate that grows" else soft).reshape(n, 1, VALUES)
    opening = a if change == "one gate for both" else b
    corrected = kernels.sigmoid(opening)
    if change == "twice the correction":
        corrected = kernels.multiply(corrected, 2.0)
    corrected = kernels.astype(corrected, np.float32).reshape(n, 1, VALUES)
    seen = kernels.sum(delta) if change == "a state that is read" else None
    if change == "a state that is written":
        kernels.multiply(delta, 0.5, out=delta)
    answer = rule(q, k, v, kept, corrected, delta)
    wide = kernels.astype(z.reshape(n, 1, VALUES, WIDTH), np.float32)
    opened = kernels.sigmoid(wide) if change == "another gate of the norm" else kernels.silu(wide)
    normed = kernels.rms_norm(answer, None if change == "no weight" else NORM, EPS)
    y = kernels.astype(kernels.multiply(opened, kernels.astype(normed, np.float32)), x.dtype).reshape(n, VALUES * WIDTH)
    others = {
        "the answer used": answer,
        "the gate used": z,
        "the convolution used": mixed,
        "a state that is read": seen,
    }
    return (y, others[change]) if change in others else y


def names_of(change, *, shapeless=False, rule=kernels.gated_delta):
    """Return the calls after the pass; the program computes what the function does, states too."""
    x, mine, its = array(ROWS, HIDDEN), states(), states()

    def function(x, conv, delta):
        return step(x, conv, delta, change, rule)

    program = dead_code(decode(traced(function, x, *mine, shapeless=shapeless)))
    for _ in range(2):
        made = function(x, *its)
        pairs = zip(program.run(x, *mine), made if isinstance(made, tuple) else (made,), strict=True)
        for a, b in [*pairs, *zip(mine, its)]:
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-4, atol=2e-5)
    return [call.split("(")[0] for call in calls(program)]


@pytest.mark.parametrize("shapeless", [False, True])
def test_a_step_is_one_kernel(shapeless):
    assert [name for name in names_of(None, shapeless=shapeless) if name != "reshape"] == [
        "quantized_matmul",
        "gdn_step",
    ]


def test_ops_that_exist_for_it():
    def function(x, conv, delta):
        n = x.shape[0]
        made = kernels.quantized_matmul(x, *WHOLE, True, 32, 4)
        ends = np.cumsum([0, CHANNELS, VALUES * WIDTH, VALUES, VALUES])
        qkv, z, b, a = (kernels.contiguous(made[:, i:j]) for i, j in pairwise(ends))
        mixed = kernels.conv_step(qkv.reshape(n, 1, CHANNELS), conv, CONV)
        parts = [kernels.contiguous(mixed[..., i : i + 64]) for i in (0, 64)]
        q, k = (kernels.rms_norm(part.reshape(n, 1, KEYS, WIDTH), None, EPS) for part in parts)
        v = kernels.contiguous(mixed[..., 128:]).reshape(n, 1, VALUES, WIDTH)
        gates = kernels.gated_delta_gates(a.reshape(n, 1, VALUES), b.reshape(n, 1, VALUES), A_LOG, DT_BIAS)
        q, k = kernels.multiply(q, 1 / WIDTH), kernels.multiply(k, WIDTH**-0.5)
        answer = kernels.gated_delta(q, k, v, *gates, delta).reshape(n * VALUES, WIDTH)
        return kernels.gated_rms_norm(answer, z.reshape(n * VALUES, WIDTH), NORM, EPS)

    x, mine, its = array(ROWS, HIDDEN), states(), states()
    program = dead_code(decode(traced(function, x, *mine)))
    assert [call.split("(")[0] for call in calls(program)] == ["quantized_matmul", "gdn_step", "reshape"]
    np.testing.assert_allclose(program.run(x, *mine)[0].numpy(), function(x, *its).numpy(), rtol=2e-4, atol=2e-5)


WHOLE = matrix(CHANNELS + VALUES * WIDTH + 2 * VALUES)
CHANGES = """a bias|no silu|keys are queries|another scale|another epsilon|a rate that grows|a difference|no weight
twice the correction|another gate of the norm|one gate for both|the answer used|the gate used|the convolution used
a state that is read|a state that is written""".replace("\n", "|").split("|")


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_no_step(change):
    assert "gdn_step" not in names_of(change)


@pytest.mark.parametrize("shapeless", [False, True])
def test_a_rule_of_the_callers_own(shapeless):
    names = names_of(None, shapeless=shapeless, rule=delta_step)
    assert [name for name in names if name not in VIEWS and not name.startswith("assert")] == [
        "quantized_matmul",
        "gdn_inputs",
        "metal_kernel",
        "copyto",
        "gated_rms_norm",
    ]


VIEWS = {"contiguous", "getitem", "reshape"}
OF_THE_NORM = {"another gate of the norm", "no weight", "the answer used", "the gate used"}
OF_THE_STATE = {"a state that is read", "a state that is written"}


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_rule_of_the_callers_own_does_not_take(change):
    """What is changed in what the rule takes, or in the norm, stays as it is; the other is found."""
    names = names_of(change, rule=delta_step)
    assert ("gdn_inputs" in names) == (change in OF_THE_NORM | OF_THE_STATE)
    assert ("gated_rms_norm" in names) == (change not in {"another gate of the norm", "no weight"})
