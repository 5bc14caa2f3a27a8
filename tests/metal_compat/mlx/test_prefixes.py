"""Prefixes: what is computed of the first places of a cache comes again for other lengths, with the same values."""

import numpy as np
import pytest

from hiprt.graphs.trace import lazy
from hiprt.metal_compat import mlx as mx

HEADS, GROUPS, WIDTH, CAPACITY, TOKENS = 4, 2, 48, 32, 9
FORMAT = {"group_size": 32, "bits": 8}


@pytest.fixture(autouse=True)
def forgotten():
    """Structures that other tests have left are not taken for those of this one."""
    for table in (lazy.known, lazy.seen):
        table.clear()


def softmax(x):
    raised = np.exp(x - x.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def grown(function, host, *, first=3, width=WIDTH, rest=np.nan):
    """Compare what a function makes of a cache's first places with numpy, for each of some tokens; all are replayed."""
    random = np.random.default_rng(2)
    rows = random.normal(size=(TOKENS + first, 1, GROUPS, width)).astype(np.float32)
    start = np.full((1, GROUPS, CAPACITY, width), rest, np.float32)
    start[:, :, :first] = rows[:first].transpose(1, 2, 0, 3)
    cache = [mx.array(start)]
    mx.eval(cache)

    def token(at):
        whole = cache[0]
        whole[..., at : at + 1, :] = mx.array(rows[at][:, :, None])
        cache[0] = whole
        made = function(whole[..., : at + 1, :], at)
        mx.eval(made, whole)
        return np.array(made, copy=True)

    for at in range(first, first + TOKENS):
        seen = rows[: at + 1].transpose(1, 2, 0, 3)
        np.testing.assert_allclose(token(at), host(seen, at), rtol=2e-4, atol=2e-5)
    (lowered,) = lazy.known.values()  # the same structure each time, but for addresses
    assert sum(lowered.step.rungs.values()) == TOKENS - 1
    assert lowered.step.rungs["instantiate"] <= 2


def test_products_and_a_softmax():
    """Scores are masked where they are joined: what lies behind the first places may be no number."""
    q = np.random.default_rng(1).normal(size=(1, GROUPS, 1, WIDTH)).astype(np.float32)

    def scores(keys, at):
        shares = mx.softmax((mx.array(q) * 0.5) @ keys.swapaxes(-1, -2) + 1.0, axis=-1)
        return shares @ keys

    grown(scores, lambda keys, at: softmax((q * 0.5) @ keys.swapaxes(-1, -2)) @ keys)


def test_views_and_elementwise_ops():
    def shares(keys, at):
        made = mx.exp(keys[:, None] * 0.1 - 1).transpose(0, 2, 3, 1, 4)[:, :, :, 0, :4].astype(mx.float16)
        return mx.softmax(made.swapaxes(1, 2), axis=-1).swapaxes(1, 2)[:, 0].swapaxes(-1, -2) @ mx.ones((at + 1, 1))

    def host(keys, at):
        made = np.exp(keys[:, None] * 0.1 - 1).transpose(0, 2, 3, 1, 4)[:, :, :, 0, :4].astype(np.float16)
        return softmax(made.astype(np.float32))[:, 0].astype(np.float16).sum(1, dtype=np.float32)[..., None]

    random = np.random.default_rng(2)
    whole = mx.array(random.normal(size=(1, GROUPS, CAPACITY, WIDTH)).astype(np.float32))
    held = np.array(whole, copy=True)
    for at in range(4, 8):
        whole[..., at : at + 1, :] = mx.ones((1, GROUPS, 1, WIDTH))
        held[:, :, at] = 1
        found = shares(whole[..., : at + 1, :], at)
        np.testing.assert_allclose(np.array(found), host(held[:, :, : at + 1], at), rtol=2e-3)


@pytest.mark.parametrize("is_masked", [False, True])
def test_attention_with_sinks_and_a_mask(is_masked):
    random = np.random.default_rng(4)
    q = random.normal(size=(1, HEADS, 1, WIDTH)).astype(np.float32)
    sinks = random.normal(size=HEADS).astype(np.float32)
    bias = random.normal(size=(1, GROUPS, WIDTH, 1)).astype(np.float32)

    def attend(keys, at):
        mask = None
        if is_masked:
            mask = (keys @ mx.array(bias)).swapaxes(-1, -2)[:, :1]
        return mx.fast.scaled_dot_product_attention(
            mx.array(q), keys, keys * 2, scale=0.2, mask=mask, sinks=mx.array(sinks)
        )

    def host(keys, at):
        wide = np.repeat(keys, HEADS // GROUPS, axis=1)
        scores = 0.2 * q @ wide.swapaxes(-1, -2)
        if is_masked:
            scores = scores + (keys @ bias).swapaxes(-1, -2)[:, :1]
        column = np.broadcast_to(sinks[None, :, None, None], (1, HEADS, 1, 1))
        return softmax(np.concatenate([column, scores], -1))[..., 1:] @ wide * 2

    grown(attend, host)


def test_several_queries_see_what_is_before_them():
    q = np.random.default_rng(5).normal(size=(1, GROUPS, 3, WIDTH)).astype(np.float32)

    def attend(keys, at):
        return mx.fast.scaled_dot_product_attention(mx.array(q), keys, keys, scale=0.3, mask="causal")

    def host(keys, at):
        scores = 0.3 * q @ keys.swapaxes(-1, -2)
        hidden = np.arange(at + 1)[None] > np.arange(at - 2, at + 1)[:, None]
        return softmax(np.where(hidden, -np.inf, scores)) @ keys

    grown(attend, host)


def test_a_mask_of_all_tokens_so_far():
    """A window, as mlx-lm makes masks of it from `arange` of how many tokens there are, and from the last position."""
    q = np.random.default_rng(6).normal(size=(1, GROUPS, 1, WIDTH)).astype(np.float32)

    def attend(keys, at):
        places, here = mx.arange(at + 1)[None], mx.arange(at, at + 1)[:, None]
        mask = (here >= places) & (here < places + 4)
        return mx.fast.scaled_dot_product_attention(mx.array(q), keys, keys, scale=0.3, mask=mask)

    def host(keys, at):
        scores = 0.3 * q @ keys.swapaxes(-1, -2)
        return softmax(np.where(at < np.arange(at + 1) + 4, scores, -np.inf)) @ keys

    grown(attend, host, first=6)


def test_quantised_caches():
    """Codes, scales and biases of keys and values; scores are products with the rows, and answers with the columns."""
    random = np.random.default_rng(7)
    q = random.normal(size=(1, GROUPS, 1, 64)).astype(np.float32)
    rows = random.normal(size=(TOKENS + 3, 1, GROUPS, 1, 64)).astype(np.float32)
    parts = mx.quantize(mx.zeros((1, GROUPS, CAPACITY, 64)), **FORMAT)
    cache = [list(parts)]
    mx.eval(cache)
    host = np.zeros((1, GROUPS, CAPACITY, 64), np.float32)

    def answer(at):
        for whole, part in zip(cache[0], mx.quantize(mx.array(rows[at]), **FORMAT)):
            whole[..., at : at + 1, :] = part
        seen = [each[..., : at + 1, :] for each in cache[0]]
        scores = mx.quantized_matmul(mx.array(q), *seen, transpose=True, **FORMAT)
        return mx.quantized_matmul(mx.softmax(scores, axis=-1), *seen, transpose=False, **FORMAT)

    def token(at):
        made = answer(at)  # no name of what is in between is left when it is computed
        mx.eval(made, cache)
        return np.array(made, copy=True)

    for at in range(TOKENS + 3):
        host[:, :, at] = np.array(mx.dequantize(*mx.quantize(mx.array(rows[at]), **FORMAT), **FORMAT))[:, :, 0]
        keys = host[:, :, : at + 1]
        expected = softmax(q @ keys.swapaxes(-1, -2)) @ keys
        np.testing.assert_allclose(token(at), expected, rtol=2e-4, atol=2e-5)
    assert max(sum(lowered.step.rungs.values()) for lowered in lazy.known.values()) >= TOKENS


def test_what_has_no_rule_takes_the_places_as_they_are():
    grown_sizes = []

    def joined(keys, at):
        made = mx.concatenate([keys, keys], axis=2).sum(axis=2)
        grown_sizes.append(made.shape)
        return made

    random = np.random.default_rng(2)
    whole = mx.array(random.normal(size=(1, GROUPS, CAPACITY, WIDTH)).astype(np.float32))
    host = np.array(whole, copy=True)
    for at in range(4, 8):
        whole[..., at : at + 1, :] = mx.ones((1, GROUPS, 1, WIDTH))
        host[:, :, at] = 1
        made = joined(whole[..., : at + 1, :], at)
        np.testing.assert_allclose(np.array(made), 2 * host[:, :, : at + 1].sum(2), rtol=1e-5)
    assert set(grown_sizes) == {(1, GROUPS, WIDTH)}


def test_positions_are_no_constants():
    for at in range(5, 12):
        places = mx.arange(at, at + 2) + at
        made = mx.where(places < at + 1000, places * 2, 0)
        assert made.tolist() == [4 * at, 4 * at + 2]
    (lowered,) = lazy.known.values()
    assert lowered.step.rungs["replay"] >= 4


@pytest.mark.parametrize("index", [(..., slice(0, 4)), (..., slice(0, 6)), (1, slice(1, 5, 2)), slice(None)])
def test_a_part_without_arrays_is_combined_at_once(index):
    host = np.arange(12, dtype=np.float32).reshape(2, 6)
    x = mx.array(host)
    expected = host.copy()
    expected[index] *= 3
    made = x.at[index].multiply(3)
    assert made.dtype is mx.float32
    assert made.tolist() == expected.tolist()
    assert x.tolist() == host.tolist()
