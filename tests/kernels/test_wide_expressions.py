"""Elementwise ops of large arrays, whose threads load several elements at once: the bits of small arrays' kernels."""

import numpy as np
import pytest

import hiprt
from hiprt import kernels
from hiprt.array import bfloat16
from hiprt.kernels.ops.elementwise import expression
from hiprt.kernels.ops.elementwise.expression import LARGE

PIECES = 64
FLOATING = (np.dtype(np.float32), np.dtype(np.float16), bfloat16)


def values(dtype, seed):
    random = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "b":
        return random.random(LARGE) < 0.5
    if np.dtype(dtype).kind in "iu":
        return random.integers(-100 if np.dtype(dtype).kind == "i" else 0, 100, LARGE).astype(dtype)
    return (random.normal(size=LARGE) * 4).astype(dtype)


@pytest.fixture
def wide(monkeypatch):
    """How many launches load several elements at once."""
    found = []
    plan = expression.wide_launch_of

    def counted(*args):
        launch = plan(*args)
        found.append(launch)
        return launch

    monkeypatch.setattr(expression, "wide_launch_of", counted)
    return found


def in_pieces(op, *operands):
    """Return the results for pieces of the operands, joined."""
    size = LARGE // PIECES
    parts = [
        op(*(v[i * size : i * size + size] if isinstance(v, hiprt.Array) and v.size == LARGE else v for v in operands))
        for i in range(PIECES)
    ]
    return np.concatenate([part.numpy() for part in parts])


def check(wide, op, *operands, is_wide=True):
    got = op(*operands).numpy()
    assert [each is not None for each in wide] == [is_wide]
    assert got.tobytes() == in_pieces(op, *operands).tobytes()
    assert len(wide) == 1


@pytest.mark.parametrize("dtype", [*FLOATING, np.int8, np.uint16, np.int32, np.int64, bool], ids=str)
def test_two_arrays(branch, wide, dtype):
    x, y = (hiprt.array(values(dtype, seed)) for seed in (1, 2))
    check(wide, kernels.maximum, x, y)


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_numbers_functions_and_comparisons(branch, wide, dtype):
    x, one = hiprt.array(values(dtype, 1)), hiprt.array(values(dtype, 2)[:1])
    for op, *operands in (
        (kernels.multiply, x, 2.5),
        (kernels.exp, x),
        (kernels.less, x, 0.0),
        (kernels.subtract, one, x),
        (kernels.where, kernels.less(x, 0.5), x, 1),
        (kernels.clip, x, -1.0, 1.0),
    ):
        wide.clear()
        check(wide, op, *operands)


@pytest.mark.parametrize("new", [np.float16, bfloat16, np.int8, np.int32, np.int64, bool], ids=str)
def test_conversions(branch, wide, new):
    check(wide, lambda x: kernels.astype(x, new), hiprt.array(values(np.float32, 3)), is_wide=new != np.int32)


def test_in_place(branch, wide):
    x, y = (values(np.float32, seed) for seed in (4, 5))
    mine = hiprt.array(x)
    kernels.multiply(mine, hiprt.array(y), out=mine)
    assert mine.numpy().tobytes() == (x * y).tobytes()
    whole = hiprt.array(values(np.float32, 6))
    words = whole.view(np.int32)
    kernels.astype(whole, np.int32, out=words)  # as wide, and of another dtype
    np.testing.assert_array_equal(words.numpy(), values(np.float32, 6).astype(np.int32))
    assert [each is not None for each in wide] == [True, False]


def test_what_does_not_lie_right(branch, wide):
    whole = hiprt.array(np.concatenate([values(np.float32, seed) for seed in (7, 8, 9)]))
    size = 2 * LARGE
    for x in (whole[1 : size + 1], whole[: size + 1], whole[::-1], whole.reshape(3, LARGE).T):
        wide.clear()
        exact = x.numpy() * np.float32(3)
        np.testing.assert_array_equal(kernels.multiply(x, 3.0).numpy(), exact)
        assert wide == [None]
