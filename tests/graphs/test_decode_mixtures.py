"""Mixtures in the decode pass: what becomes the kernels of experts, and what differs from it and must not."""

import numpy as np
import pytest
from helpers.traced import calls, traced

import hiprt
from hiprt import kernels
from hiprt.graphs.trace.passes.dead_code import dead_code
from hiprt.graphs.trace.passes.decode import decode

HIDDEN, INNER, EXPERTS, CHOSEN, ROWS = 64, 64, 6, 2, 3
random = np.random.default_rng(1)


def array(*shape):
    return hiprt.array((random.normal(size=shape) * 0.3).astype(np.float32))


def matrix(*shape, bits=4):
    return kernels.quantize(array(*shape), 32, bits), bits


ROUTER, OPENING = matrix(EXPERTS, HIDDEN, bits=8), matrix(1, HIDDEN, bits=8)
GATE, UP = matrix(EXPERTS, INNER, HIDDEN), matrix(EXPERTS, INNER, HIDDEN)
DOWN, OTHER = matrix(EXPERTS, HIDDEN, INNER), matrix(EXPERTS, HIDDEN, INNER, bits=8)
SHARED = matrix(INNER, HIDDEN), matrix(INNER, HIDDEN), matrix(HIDDEN, INNER)
WIDE = matrix(2 * INNER, HIDDEN), matrix(2 * INNER, HIDDEN), matrix(HIDDEN, 2 * INNER)
NORM = array(HIDDEN)


def multiply(x, matrix):
    (w, scales, biases), bits = matrix
    return kernels.quantized_matmul(x, w, scales, biases, True, 32, bits)


def gather(x, matrix, chosen, lhs=None):
    (w, scales, biases), bits = matrix
    return kernels.gather_qmm(x, w, scales, biases, lhs, chosen, True, 32, bits)


def shared_of(x, matrices):
    gate, up, down = matrices
    return multiply(kernels.multiply(kernels.silu(multiply(x, gate)), multiply(x, up)), down)


def mixture(x, change=None, is_shared=False):
    """A mixture as mlx-lm writes it, with one thing changed."""
    n = x.shape[0]
    normed = kernels.rms_norm(x, NORM, 1e-6)
    logits = multiply(normed, ROUTER)
    gates = kernels.softmax(logits, axis=0 if change == "softmax over rows" else -1)
    order = kernels.argpartition(gates, -CHOSEN)
    chosen = order[..., :CHOSEN] if change == "the smallest" else order[..., -CHOSEN:]
    scores = kernels.take_along_axis(gates, chosen, axis=-1)
    total = kernels.sum(scores, axis=-1, keepdims=True)
    if change == "a number in the sum":
        total = kernels.add(total, 0.25)
    scores = scores if change == "shares of all" else kernels.divide(scores, total)
    if change == "shares turned around":
        scores = kernels.contiguous(scores[..., ::-1])
    wide = normed.reshape(n, 1, 1, HIDDEN)
    lhs = hiprt.array(np.array([[2], [0], [1]], np.uint32)) if change == "other vectors" else None
    up, gate = gather(wide, UP, chosen, lhs), gather(wide, GATE, chosen, lhs)
    opened = kernels.gelu(gate) if change == "another gate" else kernels.silu(gate)
    inner = kernels.multiply(opened, up)
    below = kernels.contiguous(chosen[..., ::-1]) if change == "other experts below" else chosen
    answers = gather(inner, OTHER if change == "other bits below" else DOWN, below).reshape(n, CHOSEN, HIDDEN)
    weighted = kernels.multiply(answers, scores[..., None])
    y = kernels.sum(weighted, axis=-1 if change == "sum over columns" else -2)
    if change == "sum over columns":
        return y
    if is_shared:
        source = x if change == "another vector" else normed
        shared = shared_of(source, WIDE if change == "a wider expert" else SHARED)
        opening = kernels.sigmoid(multiply(normed, OPENING))
        y = kernels.add(y, shared if change == "no gate" else kernels.multiply(opening, shared))
    y = kernels.add(x, y)
    results = {
        "places used": chosen,
        "shares used": scores,
        "inner used": inner,
        "answers used": answers,
        "logits used": logits,
    }
    return (y, results[change]) if change in results else y


def check(function, x, *, shapeless=False):
    """Return the names of a program's calls after the pass, which computes what the function does."""
    program = dead_code(decode(traced(function, x, shapeless=shapeless)))
    made = function(x)
    for mine, its in zip(program.run(x), made if isinstance(made, tuple) else (made,), strict=True):
        np.testing.assert_allclose(mine.numpy(), its.numpy(), rtol=1e-4, atol=2e-5)
    return [call.split("(")[0] for call in calls(program)]


@pytest.mark.parametrize("shapeless", [False, True])
@pytest.mark.parametrize("is_shared", [False, True])
def test_a_mixture_is_four_kernels(is_shared, shapeless):
    names = check(lambda x: mixture(x, is_shared=is_shared), array(ROWS, HIDDEN), shapeless=shapeless)
    assert names == ["product", "moe_route", "moe_gate_up", "moe_down"]


def test_other_shapes():
    program = dead_code(decode(traced(lambda x: mixture(x, is_shared=True), array(ROWS, HIDDEN), shapeless=True)))
    x = array(ROWS + 2, HIDDEN)
    np.testing.assert_allclose(program.run(x)[0].numpy(), mixture(x, is_shared=True).numpy(), rtol=1e-4, atol=2e-5)


def test_shares_of_all_experts():
    names = check(lambda x: mixture(x, "shares of all"), array(ROWS, HIDDEN))
    assert names == ["product", "moe_route", "moe_gate_up", "moe_down"]


@pytest.mark.parametrize(
    "change", ["softmax over rows", "the smallest", "a number in the sum", "places used", "sum over columns"]
)
def test_what_is_no_routing(change):
    names = check(lambda x: mixture(x, change), array(ROWS, HIDDEN))
    assert change == "sum over columns" or "moe_route" not in names
    assert "moe_down" not in names


@pytest.mark.parametrize(
    "change",
    [
        "other vectors",
        "another gate",
        "other experts below",
        "inner used",
        "answers used",
        "shares used",
        "shares turned around",
    ],
)
def test_what_is_no_mixture(change):
    names = check(lambda x: mixture(x, change), array(ROWS, HIDDEN))
    assert "moe_gate_up" not in names
    assert "moe_down" not in names


@pytest.mark.parametrize("change", ["other bits below", "logits used"])
def test_what_else_is_a_mixture(change):
    assert "moe_down" in check(lambda x: mixture(x, change), array(ROWS, HIDDEN))


@pytest.mark.parametrize("change", ["another vector", "a wider expert", "no gate", "shares used", "logits used"])
def test_what_is_no_shared_expert(change):
    names = check(lambda x: mixture(x, change, is_shared=True), array(ROWS, HIDDEN))
    route = next(
        each
        for each in calls(decode(traced(lambda x: mixture(x, change, True), array(ROWS, HIDDEN))))
        if "moe_route" in each
    )
    assert "shared" not in route or change == "logits used"
    assert names.count("moe_down") == (change == "no gate")
