"""Layers of the model families as one graph: the bits of eager launches, states in place, nothing read by the host."""

import numpy as np
import pytest

import hiprt
from hiprt import graphs, kernels
from hiprt.kernels.reference.quantize import quantize

HALF = np.dtype(np.float16)


def stored(normal, *shape, seed=0, bits=4):
    return [hiprt.array(part) for part in quantize(normal(shape, HALF, seed, 0.1), 32, bits)]


def mixture(normal, bits):
    """A decode step of a mixture of experts with a shared expert, for two tokens."""
    x = hiprt.array(normal((2, 64), HALF, 1))
    router, weight = hiprt.array(normal((16, 64), HALF, 2)), hiprt.array(normal(64, HALF, 3))
    up, gate, down = (stored(normal, 16, *s, seed=i, bits=bits) for i, s in enumerate(((32, 64), (32, 64), (64, 32))))
    shared = stored(normal, 64, 64, seed=9)
    options = {"group_size": 32, "bits": bits}

    def step():
        total, normed = kernels.add_rms_norm(x, x, weight, 1e-6)
        chosen, shares = kernels.moe_route(kernels.matmul(normed, router.T), 4)
        each = normed.reshape(2, 1, 1, 64)
        opened = kernels.gather_qmm(each, *gate, rhs_indices=chosen, **options)
        risen = kernels.gather_qmm(each, *up, rhs_indices=chosen, **options)
        hidden = kernels.silu_mul(opened, risen).reshape(8, 1, 32)
        answers = kernels.gather_qmm(hidden, *down, rhs_indices=chosen.reshape(8), **options).reshape(2, 4, 64)
        common = kernels.quantized_matmul(normed, *shared, group_size=32)
        opening = kernels.sum(kernels.multiply(normed, weight), -1, keepdims=True)
        return kernels.add(total, kernels.moe_combine(answers, shares, common, opening))

    return step, []


def delta(normal, _):
    """A decode step of a gated-delta layer."""
    x = hiprt.array(normal((1, 1, 160), HALF, 1))
    convolution, taps = hiprt.zeros((1, 3, 160), HALF), hiprt.array(normal((160, 4), HALF, 2))
    state = hiprt.zeros((1, 4, 16, 16))
    a, a_log, bias = hiprt.array(normal((1, 1, 4), HALF, 3)), hiprt.array(normal(4, np.float32, 4)), normal(4, HALF, 5)
    dt_bias, weight = hiprt.array(bias), hiprt.array(normal(16, HALF, 6))

    def step():
        mixed = kernels.conv_step(x, convolution, taps)
        q, k = (kernels.contiguous(mixed[..., i * 32 : i * 32 + 32]).reshape(1, 1, 2, 16) for i in (0, 1))
        v = kernels.contiguous(mixed[..., 64:128]).reshape(1, 1, 4, 16)
        g, beta = kernels.gated_delta_gates(a, a, a_log, dt_bias)
        answers = kernels.gated_delta(kernels.rms_norm(q, None, 1e-6), kernels.multiply(k, 0.25), v, g, beta, state)
        return kernels.gated_rms_norm(answers, v, weight, 1e-6)

    return step, [convolution, state]


def fused(normal, _):
    """A decode step of a gated-delta layer and of its experts, for two tokens, by the fused kernels."""
    x, norm = hiprt.array(normal((2, 200), HALF, 1)), hiprt.array(normal(64, HALF, 2))
    conv, state = hiprt.zeros((2, 3, 128), HALF), hiprt.zeros((2, 4, 16, 16))
    weight, gates = hiprt.array(normal((128, 4), HALF, 3)), hiprt.array(normal(4, HALF, 4))
    a_log, router = hiprt.array(normal(4, np.float32, 5)), hiprt.array(normal((17, 64), HALF, 6))
    up, down = stored(normal, 17, 64, 64, seed=7), stored(normal, 17, 64, 32, seed=8)
    sizes = {"key_heads": 2, "value_heads": 4, "key_width": 16, "value_width": 16}

    def step():
        answers = kernels.gdn_step(x, weight, conv, a_log, gates, state, **sizes, norm=norm[:16])
        chosen, shares = kernels.moe_route(kernels.matmul(answers, router.T), 3, shared=True)
        hidden = kernels.moe_gate_up(answers, chosen, *up, norm=norm, group_size=32)
        return kernels.moe_down(hidden, chosen, shares, *down, residual=answers, group_size=32)

    return step, [conv, state]


def draw(normal, _):
    """The choice of a token."""
    logits, tokens = hiprt.array(normal((1, 300), HALF, 1)), hiprt.zeros(8, np.int32)
    step_block = hiprt.array(np.array([3, 0, 1, 8], np.int32))
    heat, p = hiprt.full(1, 0.8), hiprt.full(1, 0.9)
    seed, k = hiprt.full(1, 5, np.uint32), hiprt.full(1, 40, np.int32)
    history = hiprt.zeros((300, 4))

    def step():
        position = step_block[1:2]
        weak = kernels.repetition_penalty(logits, tokens, position, heat)
        likely = kernels.filter_logits(weak, top_k=k, top_p=p, min_p=None)
        token = kernels.sample(likely, heat, seed, position)
        kernels.scatter_add(history, token, kernels.slice(history, position, [0], (1, 4)), out=history)
        row = kernels.astype(kernels.slice(likely, position, [1], (1, 4)), np.float32)
        kernels.slice_update(history, row, position, [0], out=history)
        kernels.advance(step_block, tokens, token)
        return token, kernels.argsort(likely), kernels.concatenate([history, row], 0)

    return step, [tokens, step_block, history]


def flat(results):
    return [value.numpy() for value in (results if isinstance(results, tuple) else (results,))]


@pytest.mark.parametrize("make", [mixture, delta, fused, draw])
@pytest.mark.parametrize("bits", [4, 3])
def test_a_graph_gives_the_bits_of_eager(branch, stream, normal, make, bits):
    function, states = make(normal, bits)
    before = [state.numpy() for state in states]
    eager = [flat(function()) for _ in range(3)]
    after = [state.numpy() for state in states]
    for state, values in zip(states, before):
        state.set(values)
    step = graphs.Step(function, stream=stream)
    for expected in eager:
        for got, exact in zip(flat(step()), expected):
            np.testing.assert_array_equal(got, exact)
    for state, values in zip(states, after):
        np.testing.assert_array_equal(state.numpy(), values)
    assert step.rungs["replay"] == 2
    assert step.rungs["eager"] == 0
