"""filter_logits and repetition_penalty: each rule, rules together, ties, limits, draws after them, mistakes."""

import numpy as np
import pytest
from helpers.many_blocks import largest, launches

import hiprt
from hiprt import kernels
from hiprt.kernels.ops.sampling.filter_logits import plan_of
from hiprt.kernels.reference import ops as reference
from hiprt.kernels.tuning.target import target_of


def one(value, dtype):
    return None if value is None else hiprt.array(np.array([value], dtype))


def filtered(logits, top_k=None, top_p=None, min_p=None, **more):
    rules = {"top_k": one(top_k, np.int32), "top_p": one(top_p, np.float32), "min_p": one(min_p, np.float32)}
    return kernels.filter_logits(logits, **rules, **more)


def check(logits, **rules):
    kept = reference.filter_logits(logits, **rules)
    got = filtered(hiprt.array(logits), **rules).numpy()
    np.testing.assert_array_equal(got, np.where(kept, logits, np.array(-np.inf, logits.dtype)))
    return kept


RULES = [
    {"top_k": 1},
    {"top_k": 7},
    {"top_p": 0.9},
    {"top_p": 0.03},
    {"min_p": 0.05},
    {"top_k": 20, "top_p": 0.7},
    {"top_k": 5, "top_p": 0.95, "min_p": 0.2},
]


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("size", [1, 9, 300, 5000])
def test_rules_of_the_reference(branch, dtype, rules, size):
    # Different logits, far enough from each other that no rule's limit lies within a rounding error of one.
    logits = np.random.default_rng(size).permutation(np.linspace(-9, 9, size)).astype(dtype)
    kept = check(logits, **rules)
    assert kept.any()


def test_what_keeps_all_and_what_keeps_one(branch, dtype, normal):
    logits = normal((1, 70), dtype)
    for rules in ({}, {"top_k": 0}, {"top_k": -1}, {"top_k": 70}, {"top_k": 1000}, {"top_p": 1.0}, {"min_p": 0.0}):
        np.testing.assert_array_equal(filtered(hiprt.array(logits), **rules).numpy(), logits)
    for rules in ({"top_p": 0.0}, {"min_p": 1.0}, {"top_k": 1}):
        got = filtered(hiprt.array(logits), **rules).numpy().astype(np.float64)
        assert np.isfinite(got).sum() == (logits == logits.max()).sum()


def test_equal_logits_stay_together(branch, dtype):
    logits = np.array([1, 3, 2, 2, 0, 2, -1, -0.0], dtype)
    assert check(logits, top_k=2).tolist() == [False, True, True, True, False, True, False, False]
    assert check(logits, top_k=7).tolist() == [True, True, True, True, True, True, False, True]
    logits[4:] = -np.inf
    assert check(logits, top_k=3).tolist() == [False, True, True, True, False, False, False, False]


def test_shares_of_equal_logits_are_exact(branch, dtype):
    """A sum of exponentials does not depend on the order in which threadgroups add to it."""
    logits = np.full(40000, -3, dtype)
    logits[::4] = 2
    logits[1::4] = 1.5
    # Two quarters have these shares of the whole: a little less than the first reaches needs no second one.
    powers = np.repeat(np.exp(np.array([0, -0.5, -5, -5])), 10000)
    limit = powers[:10000].sum() / powers.sum()
    for p, kept in ((limit - 1e-6, 10000), (limit + 1e-6, 20000), (0.9999, 40000), (1e-9, 10000)):
        assert np.isfinite(filtered(hiprt.array(logits), top_p=p).numpy().astype(float)).sum() == kept
    assert np.isfinite(filtered(hiprt.array(np.zeros_like(logits)), top_p=0.5).numpy().astype(float)).all()


def test_nan_stays_and_does_not_count(branch, dtype):
    logits = np.linspace(-4, 4, 3000).astype(dtype)
    logits[[5, 2000]] = np.nan
    for rules in ({"top_k": 3}, {"top_p": 0.1}):
        got = filtered(hiprt.array(logits), **rules).numpy().astype(float)
        assert np.isnan(got[[5, 2000]]).all()
        others = np.delete(logits, [5, 2000])
        np.testing.assert_array_equal(np.isfinite(np.delete(got, [5, 2000])), reference.filter_logits(others, **rules))


@pytest.mark.parametrize("rules", [{"top_k": 2990}, {"top_p": 0.9}, {"top_k": 4, "top_p": 0.5}])
def test_infinite_logits(branch, dtype, rules):
    logits = np.linspace(-4, 4, 3000).astype(dtype)
    logits[:500] = -np.inf
    check(logits, **({**rules, "top_k": 2500} if "top_p" not in rules else rules))
    logits[7] = np.inf
    got = filtered(hiprt.array(logits), **({"top_k": 1} if "top_k" in rules else rules)).numpy().astype(float)
    assert got[7] == np.inf
    assert (np.delete(got, 7) == -np.inf).all()


@pytest.mark.parametrize("kind", [np.dtype(np.float32), hiprt.bfloat16])
def test_a_vocabulary(branch, kind, normal):
    logits = normal(151936, kind, 4, 3.0)
    for rules in ({"top_k": 50}, {"top_k": 9000}, {"top_p": 0.9}, {"top_k": 40, "top_p": 0.8, "min_p": 0.01}):
        exact = int(reference.filter_logits(logits, **rules).sum())
        kept = np.isfinite(filtered(hiprt.array(logits), **rules).numpy().astype(np.float32))
        assert abs(int(kept.sum()) - exact) <= 2  # a sum's rounding at the limit
        assert logits[kept].min() > logits[~kept].max()


def test_rows_have_their_own_rules(branch, dtype):
    """Draws under rules are those from what `filter_logits` leaves."""
    random = np.random.default_rng(6)
    logits = np.stack([random.permutation(np.linspace(low, 9, 5000)) for low in (-9, -60, 8, -3)]).astype(dtype)
    logits[2, [7, 4000]] = np.nan
    given = {
        "top_k": np.array([5, 0, 40, 4990], np.int32),
        "top_p": np.array([1.0, 0.7, 0.999, 0.05], np.float32),
        "min_p": np.array([0.0, 0.3, 0.0, 0.0], np.float32),
    }
    device = hiprt.array(logits)
    heat, seed = hiprt.array(np.array([1, 5, 0, 2], np.float32)), hiprt.array(np.arange(4, dtype=np.uint32))
    for names in (("top_k",), ("top_p",), ("min_p",), ("top_k", "top_p", "min_p")):
        rules = {name: hiprt.array(given[name]) for name in names}
        left = kernels.filter_logits(device, **rules)
        for row in (0, 1, 3):
            check(logits[row], **{name: given[name][row] for name in names})
            one = filtered(device[row], **{name: given[name][row] for name in names})
            np.testing.assert_array_equal(left.numpy()[row], one.numpy())
        for i in range(3):
            place = hiprt.array(np.full(4, i, np.int32))
            drawn = kernels.sample(device, heat, seed, place, **rules).numpy()
            np.testing.assert_array_equal(drawn, kernels.sample(left, heat, seed, place).numpy())


def test_what_is_found_of_a_row_is_aligned(branch, dtype):
    """Kernels read 16 bytes at a time of it."""
    place = hiprt.current_stream()
    plan = plan_of(hiprt.zeros((3, 9), dtype), hiprt.zeros(3, np.int32), None, None, target_of(place))
    assert plan.words % 4 == 0


def test_very_many_logits_do_not_take_more_threadgroups():
    """Each of them reads what all found."""
    logits = np.random.default_rng(1).permutation(np.linspace(-9, 9, 1025 * 2048 + 3)).astype(np.float32)
    with launches() as launched:
        check(logits, top_k=7)
    assert max(largest(launched).values()) <= 1024


def test_in_place_and_draws_are_of_what_is_kept(branch, dtype, normal, int32):
    logits = normal(1000, dtype, 3)
    target = hiprt.array(logits)
    assert filtered(target, top_k=5, out=target) is target
    kept = set(np.flatnonzero(reference.filter_logits(logits, top_k=5)))
    heat, seed = one(5.0, np.float32), one(9, np.uint32)
    drawn = {kernels.sample(target, heat, seed, int32(i)).item() for i in range(60)}
    assert drawn <= kept
    assert len(drawn) > 2


@pytest.mark.parametrize("position", [-1, 0, 4, 29, 30, 10**6, -(2**31), 2**31 - 1])
@pytest.mark.parametrize("window", [0, 1, 20, 1000])
def test_penalty_of_the_reference(branch, dtype, position, window, normal, close, int32):
    logits = normal((1, 500), dtype, 1)
    tokens = np.random.default_rng(2).integers(-3, 12, 30).astype(np.int32) * 45
    given = hiprt.array(logits), hiprt.array(tokens), int32(position), one(1.3, np.float32)
    got = kernels.repetition_penalty(*given, window=window)
    close(got, reference.repetition_penalty(logits, tokens, position, 1.3, window), steps=2)


def test_mistakes_are_named(dtype, int32):
    logits, tokens, factor = hiprt.zeros(8, dtype), hiprt.zeros(4, np.int32), one(1.5, np.float32)
    for error, message, wrong in [
        (ValueError, "logits has shape", lambda: kernels.filter_logits(logits.reshape(2, 2, 2))),
        (TypeError, "top_k is float32", lambda: kernels.filter_logits(logits, top_k=factor)),
        (TypeError, "top_p is int32", lambda: kernels.filter_logits(logits, top_p=int32(1))),
        (ValueError, "min_p has shape", lambda: kernels.filter_logits(logits, min_p=hiprt.zeros(2))),
        (ValueError, "logits has shape", lambda: kernels.repetition_penalty(logits[:0], tokens, int32(0), factor)),
        (ValueError, "window is -1", lambda: kernels.repetition_penalty(logits, tokens, int32(0), factor, window=-1)),
        (TypeError, "penalty is", lambda: kernels.repetition_penalty(logits, tokens, int32(0), int32(0))),
        (ValueError, "out overlaps", lambda: kernels.repetition_penalty(logits, tokens, int32(0), factor, out=logits)),
    ]:
        with pytest.raises(error, match=message):
            wrong()
